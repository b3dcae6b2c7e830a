"""The protocol of local solvers, and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from consensus.problems import BaseProblem
from consensus.regularizers import Regularizer

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class LocalSolution(NamedTuple):
    """The solutions of the local problems.

    Attributes
    ----------
    w : ndarray (agents, P)
        The minimisers.
    iterations : ndarray of int (agents,)
        Each agent's inner iterations: zero for a closed form.
    """

    w: Float[np.ndarray, "agents P"]
    iterations: Int[np.ndarray, " agents"]


class LocalSolver(Protocol):
    """Minimises the agents' local problems, ``argmin_w g~_i(w; w_i) + linear_i' (w - w_i) + r(w)``, for NEXT and SONATA.

    Your own is a frozen dataclass of its settings. An agent's result must depend only on its rows of the arguments, so that
    engines agree. It is called by one thread, and may use several.

    Notes
    -----
    Optional:

    ``prox(regularizer)``
        The prox, ``(v (P,), step) -> w (P,)``, of r and of constraints, if it has any: it measures stationarity. By default
        that of r.
    """

    def check(self, surrogate: Any, problem: BaseProblem) -> None:  # noqa: ANN401  # those that it can minimise
        """Raise ``TypeError`` or ``ValueError`` if it cannot minimise ``surrogate`` plus r; called once, before any work.

        Parameters
        ----------
        surrogate : Surrogate
            Its own ``check(problem)`` is called, too.
        problem : BaseProblem
            The problem.
        """

    def solve(
        self,
        model: Any,  # noqa: ANN401  # of these surrogates
        linear: Float[np.ndarray, "agents P"],
        regularizer: Regularizer,
        start: Float[np.ndarray, "agents P"] | None,
        tolerance: float,
    ) -> LocalSolution | tuple[Float[np.ndarray, "agents P"], Int[np.ndarray, " agents"]]:
        """Return the minimisers (agents, P) for a block of agents, and their iterations (agents,).

        Parameters
        ----------
        model : SurrogateModel
            What ``surrogate.at`` made, for a surrogate that :meth:`check` has let pass.
        linear : ndarray (agents, P)
            The linear terms, which stand for the other agents' costs. Arguments must not be changed.
        regularizer : Regularizer
            The regularizer r.
        start : ndarray (agents, P) or None
            The minimisers of the last round; the iterates in the first.
        tolerance : float
            The residual to reach, relative to that at w_i.

        Raises
        ------
        LocalSolveError
            If a problem has no solution.
        """
