"""Protocol of the costs of coupled problems."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

Rows: TypeAlias = "Float[np.ndarray, 'agents _']"


class Costs(ABC):
    """Costs f_i of the agents' own variables x_i, for :class:`consensus.problems.Coupled`.

    Attributes
    ----------
    sizes : ndarray of int (agents,)
        Numbers n_i of variables. Arrays of variables are (agents, n) for the largest n, with zeros after the first n_i.
    strong_convexity : ndarray (agents,) or None
        Moduli of convexity of the f_i; None if they are not known.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.problems import Costs, Coupled
    >>> class Parabolas(Costs):  # f_i(x_i) = x_i^2 / 2, one variable each
    ...     def __init__(self, agents):
    ...         self.sizes, self.strong_convexity = np.ones(agents, int), np.ones(agents)
    ...     def value(self, x):
    ...         return x[:, 0] ** 2 / 2
    ...     def minimise(self, slope, root, start):
    ...         return -slope / (1 + (0 if root is None else (root**2).sum(axis=1)))
    ...     def restrict(self, rows):
    ...         return Parabolas(len(self.sizes[rows]))
    ...     def with_slack(self, count):
    ...         raise NotImplementedError("equalities only")
    ...     def digests(self):
    ...         return ["x^2 / 2"] * len(self.sizes)
    >>> problem = Coupled(Parabolas(3), A=[[1.0], [1.0], [1.0]], b=[6.0])
    >>> result = consensus.solve(problem, topologies.ring(3), consensus.solvers.TrackingADMM(), rounds=100)
    >>> [x.round(6).tolist() for x in problem.primal(result.w)]
    [[2.0], [2.0], [2.0]]
    """

    sizes: np.ndarray
    strong_convexity: np.ndarray | None = None

    @abstractmethod
    def restrict(self, rows: np.ndarray | slice) -> Self:
        """Return the costs of some of the agents.

        Parameters
        ----------
        rows : slice or ndarray of int
            The agents.

        Returns
        -------
        Costs
            Theirs, of the same class.
        """

    @abstractmethod
    def with_slack(self, count: int) -> Self:
        """Return the same costs of ``(x_i, s_i)`` with further variables s_i >= 0, which cost nothing.

        Parameters
        ----------
        count : int
            Number of slack variables of each agent.

        Returns
        -------
        Costs
            The wider costs.
        """

    @abstractmethod
    def value(self, x: Rows) -> Float[np.ndarray, " agents"]:
        """Return the costs f_i(x_i).

        Parameters
        ----------
        x : ndarray (agents, n)
            The points.

        Returns
        -------
        ndarray (agents,)
            The costs.
        """

    @abstractmethod
    def minimise(self, slope: Rows, root: Float[np.ndarray, "agents m n"] | None, start: Rows) -> Rows:
        """Return ``argmin f_i(x_i) + slope_i . x_i + 1/2 |root_i x_i|^2`` under the agents' own constraints.

        Parameters
        ----------
        slope : ndarray (agents, n)
            Linear terms.
        root : ndarray (agents, m, n), optional
            Matrices of the quadratic term.
        start : ndarray (agents, n)
            Where to begin.

        Returns
        -------
        ndarray (agents, n)
            The minimisers.

        Raises
        ------
        LocalSolveError
            If there is none; it names the agent.
        """

    @abstractmethod
    def digests(self) -> list[str]:
        """Return a digest of each agent's cost, by which checkpoints know it.

        Returns
        -------
        list of str
            One for each agent.
        """
