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

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.local import Exact
    >>> from consensus.surrogates import FullLinearization
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=2, parameters=1)
    >>> w = np.array([[3.0], [5.0]])
    >>> model = FullLinearization(tau=4.0).at(problem, w, problem.gradient(w))
    >>> found = Exact().solve(model, np.zeros((2, 1)), consensus.L1(1.0))
    >>> found.w.tolist(), found.iterations.tolist()  # |w - 1.5| - 1/4, in closed form
    ([[1.25], [2.25]], [0, 0])
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

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np, consensus, topologies
    >>> from consensus.local import LocalSolution
    >>> from consensus.surrogates import FullLinearization
    >>> @dataclass(frozen=True)
    ... class OneProx:
    ...     def check(self, surrogate, problem):
    ...         if not isinstance(surrogate, FullLinearization):
    ...             raise TypeError(f"OneProx takes FullLinearization; got {surrogate}")
    ...     def solve(self, model, linear, regularizer, start, tolerance):
    ...         w = regularizer.prox(model.w - (model.gradient + linear) / model.tau, 1 / model.tau)
    ...         return LocalSolution(w, np.zeros(len(w), int))
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), 5, 1, consensus.L1(2.0))
    >>> solver = consensus.solvers.NEXT(FullLinearization(tau=10.0), 0.2, local=OneProx())
    >>> result = consensus.solve(problem, topologies.ring(5), solver, rounds=400)
    >>> result.mean.round(6).tolist()  # of 5 w^2 - 20 w + 2 |w|
    [1.8]
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
