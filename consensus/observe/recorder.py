"""Measurements during a run, outside of its clock and of the algorithm."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import numpy as np

from consensus.history import History
from consensus.models.torch_buffers import averaged
from consensus.observe.counts import BETWEEN_HOSTS, NAMES
from consensus.observe.gather import Gather, Whole
from consensus.observe.held_out import HeldOut
from consensus.observe.held_out_owned import OwnedTest
from consensus.observe.held_out_read import ReadTest
from consensus.observe.metrics import Metric, begun, mean_of, measure, squared_distances
from consensus.observe.protocols import Costs, Method
from consensus.observe.sums import added
from consensus.problems import Problem
from consensus.problems.minibatches import Minibatches, draw
from consensus.storage import history_of

ALWAYS = ("round", "objective", "stationarity", "disagreement", *NAMES, "bytes_busiest", "epochs", "seconds")
ASKED_FOR = ("agent_objective", "test_error", "test_error_worst", "agent_test_error")


class Recorder:
    """Measures the iterates of the agents, and appends rows to ``history``.

    It records the objective of each agent if `agent_objectives` is True, and `metrics`, functions of the agents' mean (P,). If
    some agents are Byzantine, only the iterates and costs of the `honest` ones are measured. `points` is the number of iterates
    that are measured, by default one of each of these agents. With `metrics_on` costs and their
    gradients are those of its first batch. If a model's buffers are averaged for evaluation, each row counts what that sends
    along a spanning tree.
    """

    def __init__(
        self,
        problem: Costs,
        solver: Method,
        test: HeldOut | ReadTest | OwnedTest | None = None,
        agent_objectives: bool = False,
        metrics: Mapping[str, Metric] | None = None,
        honest: np.ndarray | None = None,
        metrics_on: Minibatches | None = None,
        points: int | None = None,
    ) -> None:
        self.solver, self.test, self.metrics_on = solver, test, metrics_on
        self.agent_objectives, self.metrics, self.honest = agent_objectives, metrics or {}, honest
        self.points = points or (problem.network_size if honest is None else len(honest))
        self.attach(problem, Whole())
        self.history = History()
        shards = getattr(problem, "shards", None)
        self._samples = None if shards is None else shards.samples
        self._model: Any = getattr(problem, "model", None)
        self._kind: str | None = getattr(self._model, "buffers", None)

    def attach(self, problem: Costs, gather: Gather) -> None:
        """Measure with this block of the problem; `gather` collects the others."""
        batch = draw(self.metrics_on, cast(Problem, problem), 0)
        self.problem = problem if batch is None else cast(Problem, problem).sampled(batch)
        if isinstance(self.test, OwnedTest):
            self.test = self.test.restrict(cast(Problem, problem).rows)
        self.gather, self._sizes = gather, getattr(getattr(problem, "shards", None), "sizes", None)
        first = 0 if self.honest is None else self.honest[0]
        self._begins = bool(problem.rows[0] <= first <= problem.rows[-1])  # whether the first of the measured agents is here
        self._own = None if self.honest is None else np.flatnonzero(np.isin(problem.rows, self.honest))

    def resume(self, history: History, path: object) -> None:
        """Continue the history of the checkpoint `path`; raise ValueError if this run has other columns."""
        columns = {*ALWAYS, *self.solver.history_columns, *self.metrics}
        columns |= {"agent_objective"} if self.agent_objectives else set()
        columns |= {"test_error", "test_error_worst"} if self.test is not None else set()
        columns |= {"agent_test_error"} if isinstance(self.test, OwnedTest) else set()
        given = set(history) - {BETWEEN_HOSTS}
        if columns ^ given:
            there, here = sorted(given - columns), sorted(columns - given)
            raise ValueError(
                f"{path} has a history with other columns: only there {there}, only here {here}; give the same metrics, test "
                "and agent_objectives"
            )
        self.history = history

    def record(
        self,
        round: int,
        w: np.ndarray,
        mean: np.ndarray,
        report: np.ndarray | None,
        counts: dict[str, Any],
        seconds: float,
    ) -> dict[str, Any]:
        """Return the row of a round, appended to the history unless it is there, as the first row of a resumed run is.

        Parameters are those of :class:`consensus.observe.Gathered`, with counts and seconds since the start, and :meth:`mean`.
        """
        if not self.history.rows or self.history.last()["round"] < round:
            own, users = {}, {}
            if report is not None:
                report = self._measured(report)
                own = {name: float(join(report[:, k])) for k, (name, join) in enumerate(self.solver.history_columns.items())}
            if self.metrics:
                users = self.gather.once(lambda: measure(self.metrics, mean, round))
            traffic = counts.get("traffic")
            if traffic is not None:
                numbers = {name: count for name, count in counts.items() if name != "traffic"}
                counts = numbers | {"bytes_busiest": int(np.max(traffic))}
            if self._kind == "average":
                counts = counts | self._sent(counts, self.points, w.itemsize)
            if BETWEEN_HOSTS in counts and self.history.rows and BETWEEN_HOSTS not in self.history:
                # It was resumed on more machines: until then all agents were on one.
                zeros = np.zeros(self.history.rows, np.int64)
                self.history = history_of(dict(self.history) | {BETWEEN_HOSTS: zeros})
            clock = {"epochs": self._epochs(counts), "seconds": seconds}
            self.history.append({"round": round, **self.measure(w, mean), **counts, **clock, **own, **users})
        return self.history.last()

    def mean(self, w: np.ndarray) -> np.ndarray:
        """Return the mean (P,) of the measured agents, from the iterates `w` of those of this process."""
        own = w if self._own is None else w[self._own]

        def more(before: np.ndarray) -> np.ndarray:
            return begun(own, None if self._begins else before) if len(own) else before

        return mean_of(self.gather.chain(more, np.zeros((2, w.shape[1]), w.dtype)), self.points)

    def measure(self, w: np.ndarray, mean: np.ndarray) -> dict[str, float | np.ndarray]:
        """Return the measured quantities by name, at the iterates `w` of the agents of this process and the `mean` of all."""
        buffers = self._averaged(mean)
        objective, stationarity = self._at(mean, buffers)
        squares = self._numbers(lambda rows: squared_distances(w[rows], mean), len(w), w.dtype)
        row: dict[str, float | np.ndarray] = {
            "objective": objective,
            "stationarity": stationarity,
            "disagreement": float(np.sqrt(squares.mean())),
        }
        if self.agent_objectives:
            row["agent_objective"] = np.array([self._objective(point, self._averaged(point)) for point in self._points(w)])
        if isinstance(self.test, OwnedTest):
            return row | self._of_owners(self.test, w, mean, buffers)
        if (test := self.test) is None:
            return row
        keeps = self._kind == "keep"  # each agent has a mean model of its own
        means = np.broadcast_to(mean, w.shape) if keeps else mean[None]
        around, there = (self._kept(means), self._kept(w)) if keeps else (buffers, buffers)

        def errors(points: np.ndarray, buffers: np.ndarray | None) -> np.ndarray:
            def of(rows: slice | np.ndarray) -> np.ndarray:
                return test.errors(points[rows], buffers[rows] if buffers is not None and keeps else buffers)

            return self._numbers(of, len(points), np.dtype(float))

        row["test_error"] = float(errors(means, around).mean() if keeps else test.errors(means, buffers)[0])
        row["test_error_worst"] = float(errors(w, there).max())
        return row

    def _of_owners(
        self, test: OwnedTest, w: np.ndarray, mean: np.ndarray, buffers: np.ndarray | None
    ) -> dict[str, float | np.ndarray]:
        """Return the errors on the owners' test sets: of the mean on all and on each, and of the worst agent's point on all."""
        points = itertools.chain([mean], self._points(w))  # one by one, as no process holds them all
        sums = [test.sums(point[None], buffers)[:, 0] for point in points]
        weights, *errors = self._measured(self.gather.rows(np.column_stack([test.weights, *sums]))).T
        of_points = [float(of_point.sum() / weights.sum()) for of_point in errors]
        return {
            "test_error": of_points[0],
            "test_error_worst": max(of_points[1:]),
            "agent_test_error": errors[0] / weights,
        }

    def _measured(self, rows: np.ndarray) -> np.ndarray:
        return rows if self.honest is None else rows[self.honest]

    def _numbers(self, function: Callable[[slice | np.ndarray], np.ndarray], agents: int, dtype: np.dtype) -> np.ndarray:
        """Return a number of each measured agent: ``function(rows)`` are those of some of the `agents` of this process."""
        numbers, own = np.zeros(agents, dtype), slice(0, agents) if self._own is None else self._own
        if self._own is None or len(self._own):
            numbers[own] = function(own)
        return self._measured(self.gather.rows(numbers))

    def _points(self, w: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the iterate of each measured agent, in all processes."""
        measured = None if self.honest is None else set(self.honest.tolist())
        for agent, point in enumerate(itertools.chain.from_iterable(self.gather.parts(w))):
            if measured is None or agent in measured:
                yield point

    def _kept(self, points: np.ndarray) -> np.ndarray:
        """Return the buffers of each agent of this process at its own of the `points`."""
        problem: Any = self.problem
        buffers: np.ndarray = problem.buffers(points)
        return buffers

    def _averaged(self, point: np.ndarray) -> np.ndarray | None:
        """Return the buffers of all measured agents' samples at a point, if the model's are averaged."""
        if self._kind != "average":
            return None
        own = self._kept(np.broadcast_to(point, (self.problem.agents, len(point))))
        assert self._sizes is not None, "a problem with samples"
        return averaged(*(self._measured(self.gather.rows(rows)) for rows in (own, self._sizes)))

    def _sent(self, counts: dict[str, Any], agents: int, size: int) -> dict[str, int]:
        """Return the counts with what it takes to average buffers for each row of the history and the next one."""
        points = (self.history.rows + 1) * (1 + agents * self.agent_objectives)
        messages = 2 * (agents - 1) * points
        floats = messages * self._model.buffer_size
        more = {"messages": messages, "floats": floats, "bytes": size * floats}
        return {name: counts[name] + more[name] for name in more}

    def _epochs(self, counts: dict[str, Any]) -> float:
        """Return the passes over the data; if no samples are counted, one for each gradient."""
        return float(counts["samples"] / self._samples if counts["samples"] else counts["gradients"])

    def _at(self, point: np.ndarray, buffers: np.ndarray | None) -> tuple[float, float]:
        """Return objective and stationarity at a point."""
        same = np.broadcast_to(point, (self.problem.agents, len(point)))
        if buffers is None:
            costs, gradients = self.problem.value_and_gradient(same)
            objective = self._with_regularizer(costs, point)
        else:  # batches normalise by other statistics in gradients
            objective, gradients = self._objective(point, buffers), self.problem.gradient(same)
        step = point - self._total_gradient(gradients)
        return objective, float(np.linalg.norm(point - self.solver.prox(self.problem)(step, 1.0)))

    def _objective(self, point: np.ndarray, buffers: np.ndarray | None) -> float:
        problem: Any = self.problem
        same = np.broadcast_to(point, (problem.agents, len(point)))
        costs = problem.value(same) if buffers is None else problem.evaluated(buffers).value(same)
        return self._with_regularizer(costs, point)

    def _with_regularizer(self, costs: np.ndarray, point: np.ndarray) -> float:
        total = self._share * self._measured(self.gather.rows(costs)).sum()
        return float(total + self.problem.regularizer.value(point))

    def _total_gradient(self, gradients: np.ndarray) -> np.ndarray:
        """Return the sum of the gradients over all A agents, or A / H times that over H honest ones if others are Byzantine."""
        own = gradients if self._own is None else gradients[self._own]
        total: np.ndarray = self._share * self.gather.chain(lambda total: added(total, own), np.zeros_like(gradients[0]))
        return total

    @property
    def _share(self) -> float:
        """The number of agents for each one that is measured."""
        return 1.0 if self.honest is None else self.problem.network_size / len(self.honest)
