"""What a local solver is, and what it gives back."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from consensus.problems import BaseProblem
from consensus.regularizers import Regularizer


class LocalSolution(NamedTuple):
    """The minimisers ``w`` (agents, P), and each agent's inner ``iterations`` (agents,): zero for a closed form."""

    w: np.ndarray
    iterations: np.ndarray


class LocalSolver(Protocol):
    """Minimises the agents' local problems, ``argmin_w g~_i(w; w_i) + linear_i . (w - w_i) + r(w)``, for NEXT and SONATA.

    One of your own is a frozen dataclass of its settings. An agent's result must depend on
    its rows of the arguments alone, or runs differ between engines. It may use several threads of its own; it is called by one.

    Notes
    -----
    What it may have besides:

    ``prox(regularizer)``
        The prox, ``(v (P,), step) -> w (P,)``, of r and whatever else it minimises, such as constraints: stationarity is
        measured by it. By default that of r.
    """

    def check(self, surrogate: Any, problem: BaseProblem) -> None:
        """Raise ``TypeError`` or ``ValueError`` if it cannot minimise ``surrogate`` plus r for ``problem``.

        Called once, before any work. It calls the surrogate's own ``check(problem)``, too.
        """

    def solve(
        self, model: Any, linear: np.ndarray, regularizer: Regularizer, start: np.ndarray | None, tolerance: float
    ) -> LocalSolution | tuple[np.ndarray, np.ndarray]:
        """The minimisers (agents, P) for a block of agents, and how many iterations each took (agents,).

        Parameters
        ----------
        model : SurrogateModel
            What ``surrogate.at`` made, for a surrogate that :meth:`check` has let pass.
        linear : ndarray (agents, P)
            The linear terms, which stand for the other agents' costs. To be left as they are, like all arguments.
        regularizer : Regularizer
            r.
        start : ndarray (agents, P) or None
            The minimisers of the round before; the iterates in the first.
        tolerance : float
            How small an agent's residual is to become, as part of that at w_i.

        Raises
        ------
        LocalSolveError
            If a problem has no solution.
        """
