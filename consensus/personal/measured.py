"""Models of the agents' own: what they do not agree on, what couples them, and measurements at each agent's own point."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from consensus.observe.measure import MeasuredAgents, squared_distances
from consensus.observe.protocols import Method
from consensus.problems.held_out import OwnedTest, SharedTest
from consensus.problems.state import TestSet


class Personal(NamedTuple):
    """Objective of agents that have models, or parts of models, of their own.

        (1/A) [ sum_i f_i(x_i)  +  sum_{i<j} c_ij/2 |x_i - x_j|^2 ],      equal in the parameters that are not ``own``.

    Attributes
    ----------
    own : ndarray of bool (P,)
        The parameters that every agent has for itself.
    coupling : csr_array (A, A) or None
        The c_ij, symmetric; None if they are zero.
    """

    own: np.ndarray
    coupling: sparse.csr_array | None = None

    def points(self, w: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Return the agents' points: rows of ``w`` (agents, P), with the ``mean`` (P,) where agents agree."""
        return np.asarray(np.where(self.own, w, mean))

    def measures(self, agents: MeasuredAgents, solver: Method, test: TestSet | None, each: bool, hidden: bool) -> AtOwn:
        """Return what measures at the agents' own points."""
        return AtOwn(agents, solver, self, test, each, hidden)


class AtOwn:
    """Measures objective, stationarity and test error at the agents' own points: see :class:`Personal`.

    An agent's point has the mean where agents agree. `each` asks for the agents' parts of the objective, too. What is of the
    agents' data is NaN if that is `hidden`.
    """

    def __init__(
        self,
        agents: MeasuredAgents,
        solver: Method,
        personal: Personal,
        test: TestSet | None,
        each: bool,
        hidden: bool = False,
    ) -> None:
        self.hidden = hidden
        self.agents, self.solver, self.personal, self.test, self.each = agents, solver, personal, test, each
        self.problem: Any = agents.problem
        self._buffers = getattr(self.problem.model, "buffers", None) is not None

    def measure(self, w: np.ndarray, mean: np.ndarray, round: int = 0, past: object = None) -> dict[str, float | np.ndarray]:
        """Return the measured quantities by name, at the iterates `w` of the agents of this process and the `mean` of all."""
        own, agents, problem = self.personal.own, self.agents, self.problem
        points, buffers = self.personal.points(w, mean), None
        apart = squared_distances(np.where(own, 0, w), np.where(own, 0, mean))
        if self.hidden:
            disagreement = float(np.sqrt(agents.of(agents.gather.rows(apart)).mean()))
            row: dict[str, float | np.ndarray] = {"objective": np.nan, "stationarity": np.nan, "disagreement": disagreement}
            return row | self._errors(points, buffers)
        costs, gradients = problem.value_and_gradient(points)
        if self._buffers:
            buffers = problem.buffers(points)
            here = [slice(k, k + 1) for k in range(len(points))]
            costs = np.concatenate([problem.restrict(k).evaluated(buffers[k][0]).value(points[k]) for k in here])
        gaps, pulls = self._coupling(w)
        costs = problem.network_size * costs + problem.regularizer.value(points) + gaps
        slopes = np.where(own, problem.network_size * gradients, agents.total(gradients)) + pulls
        squares = np.square(points - self.solver.prox(problem)(points - slopes, 1.0)).sum(axis=1)
        objectives, squares, apart = agents.of(agents.gather.rows(np.stack([costs, squares, apart], axis=1))).T
        row = {
            "objective": float(objectives.mean()),
            "stationarity": float(np.sqrt(squares.mean())),
            "disagreement": float(np.sqrt(apart.mean())),
        }
        if self.each:
            row["agent_objective"] = objectives
        return row | self._errors(points, buffers)

    def _errors(self, points: np.ndarray, buffers: np.ndarray | None) -> dict[str, float | np.ndarray]:
        """Return the errors of the agents' points: on their own test sets, or all on one test set."""
        if (test := self.test) is None:
            return {}
        if not isinstance(test, OwnedTest):
            shared = cast(SharedTest, test)

            def of(rows: slice | np.ndarray) -> np.ndarray:
                return shared.errors(points[rows], None if buffers is None else buffers[rows])

            errors = self.agents.numbers(of, len(points))
            return {"test_error": float(errors.mean()), "test_error_worst": float(errors.max())}
        sums = [part.errors(points[k : k + 1], None if buffers is None else buffers[k]) for k, part in enumerate(test.parts)]
        errors = np.array(sums).reshape(len(points))
        weights, errors = self.agents.of(self.agents.gather.rows(np.stack([test.weights, errors], axis=1))).T
        mean = (weights * errors).sum() / weights.sum()
        return {"test_error": float(mean), "test_error_worst": float(errors.max()), "agent_test_error": errors}

    def _coupling(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        """Return ``sum_j c_ij/4 |x_i - x_j|^2`` (agents,) and ``sum_j c_ij (x_i - x_j)`` (agents, P) of agents here."""
        gaps = np.zeros(len(w), w.dtype)
        if self.personal.coupling is None:
            return gaps, 0.0
        pulls = np.zeros_like(w)
        columns = self.personal.coupling[self.problem.rows].tocsc()
        # One agent after the other, so that sums have the same bits wherever agents are.
        for agent, point in enumerate(itertools.chain.from_iterable(self.agents.gather.parts(w))):
            here = slice(*columns.indptr[agent : agent + 2])
            rows, weights = columns.indices[here], columns.data[here].astype(w.dtype)
            differences = w[rows] - point
            gaps[rows] += weights / 4 * np.square(differences).sum(axis=1)
            pulls[rows] += weights[:, None] * differences
        return gaps, pulls
