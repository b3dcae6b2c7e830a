"""Measurements at the agents' mean, of agents who look for one model."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np

from consensus.observe.measured_agents import MeasuredAgents
from consensus.observe.metrics import squared_distances
from consensus.observe.protocols import Method
from consensus.problems.held_out import OwnedTest, SharedTest
from consensus.problems.samples import averaged
from consensus.problems.state import TestSet


class AtMean:
    """Measures objective, stationarity and test error at the mean of the `agents`, and how far these are apart.

    With `each` it measures the objective of every agent's iterate, too. `sizes` are the numbers of the agents' samples here.
    What is of the agents' data is NaN if that is `hidden`.
    """

    def __init__(
        self,
        agents: MeasuredAgents,
        solver: Method,
        test: TestSet | None,
        each: bool,
        sizes: np.ndarray | None,
        hidden: bool = False,
    ) -> None:
        self.hidden = hidden
        self.agents, self.solver, self.test, self.each, self.sizes = agents, solver, test, each, sizes
        self.problem: Any = agents.problem
        self._kind: str | None = getattr(getattr(self.problem, "model", None), "buffers", None)

    def measure(self, w: np.ndarray, mean: np.ndarray) -> dict[str, float | np.ndarray]:
        """Return the measured quantities by name, at the iterates `w` of the agents of this process and the `mean` of all."""
        buffers = self._averaged(mean)
        objective, stationarity = (np.nan, np.nan) if self.hidden else self._at(mean, buffers)
        squares = self.agents.numbers(lambda rows: squared_distances(w[rows], mean), len(w), w.dtype)
        row: dict[str, float | np.ndarray] = {
            "objective": objective,
            "stationarity": stationarity,
            "disagreement": float(np.sqrt(squares.mean())),
        }
        if self.each:
            points = self.agents.iterates(w)
            row["agent_objective"] = np.array([self._objective(point, self._averaged(point)) for point in points])
        if isinstance(self.test, OwnedTest):
            return row | self._of_owners(self.test, w, mean, buffers)
        if self.test is None:
            return row
        test = cast(SharedTest, self.test)
        keeps = self._kind == "keep"  # each agent has a mean model of its own
        means = np.broadcast_to(mean, w.shape) if keeps else mean[None]
        around, there = (self.problem.buffers(means), self.problem.buffers(w)) if keeps else (buffers, buffers)

        def errors(points: np.ndarray, buffers: np.ndarray | None) -> np.ndarray:
            def of(rows: slice | np.ndarray) -> np.ndarray:
                return test.errors(points[rows], buffers[rows] if buffers is not None and keeps else buffers)

            return self.agents.numbers(of, len(points))

        row["test_error"] = float(errors(means, around).mean() if keeps else test.errors(means, buffers)[0])
        row["test_error_worst"] = float(errors(w, there).max())
        return row

    def _of_owners(
        self, test: OwnedTest, w: np.ndarray, mean: np.ndarray, buffers: np.ndarray | None
    ) -> dict[str, float | np.ndarray]:
        """Return the errors on the owners' test sets: of the mean on all and on each, and of the worst agent's point on all."""
        points = itertools.chain([mean], self.agents.iterates(w))  # one by one, as no process holds them all
        sums = [test.sums(point[None], buffers)[:, 0] for point in points]
        weights, *errors = self.agents.of(self.agents.gather.rows(np.column_stack([test.weights, *sums]))).T
        of_points = [float(of_point.sum() / weights.sum()) for of_point in errors]
        return {
            "test_error": of_points[0],
            "test_error_worst": max(of_points[1:]),
            "agent_test_error": errors[0] / weights,
        }

    def _averaged(self, point: np.ndarray) -> np.ndarray | None:
        """Return the buffers of all measured agents' samples at a point, if the model's are averaged."""
        if self._kind != "average":
            return None
        own = self.problem.buffers(np.broadcast_to(point, (self.problem.agents, len(point))))
        assert self.sizes is not None, "a problem with samples"
        return averaged(*(self.agents.of(self.agents.gather.rows(rows)) for rows in (own, self.sizes)))

    def _at(self, point: np.ndarray, buffers: np.ndarray | None) -> tuple[float, float]:
        """Return objective and stationarity at a point."""
        same = np.broadcast_to(point, (self.problem.agents, len(point)))
        if buffers is None:
            costs, gradients = self.problem.value_and_gradient(same)
            objective = self._with_regularizer(costs, point)
        else:  # batches normalise by other statistics in gradients
            objective, gradients = self._objective(point, buffers), self.problem.gradient(same)
        step = point - self.agents.total(gradients)
        return objective, float(np.linalg.norm(point - self.solver.prox(self.problem)(step, 1.0)))

    def _objective(self, point: np.ndarray, buffers: np.ndarray | None) -> float:
        same = np.broadcast_to(point, (self.problem.agents, len(point)))
        costs = self.problem.value(same) if buffers is None else self.problem.evaluated(buffers).value(same)
        return self._with_regularizer(costs, point)

    def _with_regularizer(self, costs: np.ndarray, point: np.ndarray) -> float:
        return float(self.agents.cost(costs) + self.problem.regularizer.value(point))
