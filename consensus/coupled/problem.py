"""Problems whose agents have variables of their own, coupled by linear constraints."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._arrays.digest import digest
from consensus.coupled.convex_costs import ConvexCosts, Cost
from consensus.coupled.costs import Costs, Rows
from consensus.problems.base import BaseProblem
from consensus.regularizers import NonNegative
from topologies import _names


class Coupled(BaseProblem):
    """``minimise sum_i f_i(x_i)  subject to  sum_i A_i x_i = b`` (or <= b): agent i alone knows f_i, A_i and its x_i.

    The agents agree on the multipliers: w is lambda in R^m, and the problem that a solver sees is the negative dual function,

        minimise  sum_i g_i(lambda),    g_i(lambda) = -min_x { f_i(x) + lambda . (A_i x - b_i) },    sum_i b_i = b,

    with lambda >= 0 for <=. Its gradients are ``b_i - A_i x_i(lambda)``, with the minimiser x_i(lambda). Any solver that takes
    costs given by functions runs; :class:`consensus.solvers.TrackingADMM` is made for it. x_i never leaves its agent.

    Parameters
    ----------
    costs : QuadraticCosts, ConvexCosts, other Costs, or sequence of callable
        The f_i, strictly convex on their domains; functions are taken as those of :class:`ConvexCosts`.
    A : sequence of array_like (m, n_i)
        The agents' matrices; (n_i,) means one constraint.
    b : array_like (m,), or (agents, m)
        The right-hand side, of which each agent has an equal share, or the shares b_i.
    inequality : bool
        Whether the constraint is <=.
    labels : sequence, optional
        The names of the agents.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit each other.

    References
    ----------
    Falsone, Notarnicola, Notarstefano, Prandini, "Tracking-ADMM for distributed constraint-coupled optimization",
    Automatica 117, 2020, Section 2, for the problem and its dual.

    Examples
    --------
    Three generators with quadratic costs and capacities meet a demand of 6:

    >>> import consensus, topologies
    >>> from consensus.problems import Coupled, QuadraticCosts
    >>> from consensus.solvers import TrackingADMM
    >>> costs = QuadraticCosts([[1.0], [2.0], [4.0]], [[0.0], [0.0], [0.0]], lower=0.0, upper=3.0)
    >>> problem = Coupled(costs, A=[[1.0], [1.0], [1.0]], b=[6.0])
    >>> result = consensus.solve(problem, topologies.ring(3), TrackingADMM(), rounds=200)
    >>> [x.round(6).tolist() for x in problem.primal(result.w)], float(-result.mean[0].round(6))
    ([[3.0], [2.0], [1.0]], 4.0)
    """

    coupled = True

    def __init__(
        self,
        costs: Costs | Sequence[Cost],
        A: Sequence[ArrayLike],
        b: ArrayLike,
        inequality: bool = False,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        matrices = [np.atleast_2d(_checks.floats(f"A[{agent}]", matrix)) for agent, matrix in enumerate(A)]
        if not matrices:
            raise ValueError("A must have a matrix for each agent; got none")
        if isinstance(costs, Costs):
            self.costs: Costs = costs
        elif isinstance(costs, Sequence):
            self.costs = ConvexCosts(costs, [matrix.shape[1] for matrix in matrices])
        else:
            raise TypeError(f"costs must be QuadraticCosts, ConvexCosts, or functions for CVXPY; got {_checks.shown(costs)}")
        agents, rows = len(matrices), len(matrices[0])
        if agents != len(self.costs.sizes):
            raise ValueError(f"A must have a matrix for each of {len(self.costs.sizes)} agents; got {agents}")
        self.matrices = np.zeros((agents, rows, int(self.costs.sizes.max())))
        for agent, (matrix, n) in enumerate(zip(matrices, self.costs.sizes, strict=True)):
            if matrix.shape != (rows, n):
                raise ValueError(f"A[{agent}] must have shape {(rows, int(n))}; got {matrix.shape}")
            self.matrices[agent, :, :n] = matrix
        right = _checks.floats("b", b)
        if right.shape not in ((rows,), (agents, rows)):
            raise ValueError(f"b must have shape {(rows,)}, or {(agents, rows)} for the agents' shares; got {right.shape}")
        self.right = right.copy() if right.ndim == 2 else np.tile(right / agents, (agents, 1))
        self.inequality = _checks.flag("inequality", inequality)
        super().__init__(np.arange(agents), agents, rows, np.float64, NonNegative() if inequality else None)
        if labels is not None:
            self.labels = _names.checked("labels", labels, agents)

    def __repr__(self) -> str:
        return f"Coupled({self.costs}, {self.parameters} constraints {'<=' if self.inequality else '='} b)"

    def restrict(self, rows: slice | ArrayLike) -> Self:
        chosen = _checks.rows(rows, self.agents)
        block = super().restrict(rows)
        block.costs, block.matrices, block.right = self.costs.restrict(chosen), self.matrices[chosen], self.right[chosen]
        return block

    def digests(self) -> list[str]:
        return [digest(*parts, self.inequality) for parts in zip(self.costs.digests(), self.matrices, self.right, strict=True)]

    def primal(self, w: ArrayLike) -> list[np.ndarray]:
        """Return the agents' own variables x_i(lambda_i), the minimisers of their Lagrangians.

        Parameters
        ----------
        w : array_like (agents, m)
            The multipliers lambda_i.

        Returns
        -------
        list of ndarray (n_i,)
            One array for each agent.
        """
        return [row[:n] for row, n in zip(self.minimiser(self._stack(w)), self.costs.sizes, strict=True)]

    @property
    def equality(self) -> Coupled:
        """The same problem with =, where agents with <= have slack variables s_i >= 0 after their own: A_i x_i + s_i."""
        return self.cache.get("equality", self._with_slack) if self.inequality else self

    def _with_slack(self) -> Coupled:
        rows = self.parameters
        wide = [np.hstack([matrix[:, :n], np.eye(rows)]) for matrix, n in zip(self.matrices, self.costs.sizes, strict=True)]
        return Coupled(self.costs.with_slack(rows), wide, self.right)

    def augmented(self, w: Rows, excess: Rows, x: Rows, penalty: float) -> Rows:
        """Return the minimisers of the agents' augmented Lagrangians.

            argmin_v  f_i(v) + w_i . A_i v + c/2 |A_i (v - x_i) + excess_i|^2

        Parameters
        ----------
        w, excess : ndarray (agents, m)
            The multipliers, and how far the constraint is violated.
        x : ndarray (agents, n)
            The agents' variables.
        penalty : float
            The penalty c > 0.

        Returns
        -------
        ndarray (agents, n)
            The minimisers.
        """
        target = np.einsum("imn,in->im", self.matrices, x) - excess
        slope = np.einsum("imn,im->in", self.matrices, w - penalty * target)
        return self.costs.minimise(slope, np.sqrt(penalty) * self.matrices, x)

    def minimiser(self, w: Rows) -> Rows:
        """Return the minimisers x_i(lambda_i) of the agents' Lagrangians as one array.

        Parameters
        ----------
        w : ndarray (agents, m)
            The multipliers.

        Returns
        -------
        ndarray (agents, n)
            The minimisers, with zeros after the first n_i.
        """
        slope = np.einsum("imn,im->in", self.matrices, w)
        return self.costs.minimise(slope, None, np.zeros_like(slope))

    def excess(self, x: Rows) -> Rows:
        """Return ``A_i x_i - b_i``, whose sum over all agents the constraint bounds.

        Parameters
        ----------
        x : ndarray (agents, n)
            The agents' variables, with zeros after the first n_i.

        Returns
        -------
        ndarray (agents, m)
            The agents' excess.
        """
        return np.asarray(np.einsum("imn,in->im", self.matrices, x) - self.right)

    def _value(self, w: np.ndarray) -> np.ndarray:
        x = self.minimiser(w)
        return np.asarray(-self.costs.value(x) - (w * self.excess(x)).sum(axis=1))

    def _gradient(self, w: np.ndarray) -> np.ndarray:
        gradient: np.ndarray = -self.excess(self.minimiser(w))
        return gradient

    def _lipschitz(self, w: np.ndarray | None) -> np.ndarray:
        if self.costs.strong_convexity is None:
            raise TypeError(f"{self} has no known strong convexity of its costs: give the solver a step or penalty")
        return np.asarray(np.linalg.norm(self.matrices, 2, axis=(1, 2)) ** 2 / self.costs.strong_convexity)
