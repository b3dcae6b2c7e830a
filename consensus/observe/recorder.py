"""Measurements during a run, outside of its clock and of the algorithm."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, cast

import numpy as np

from consensus.checkpoints.storage import history_of
from consensus.history import History
from consensus.observe.gather import BETWEEN_HOSTS, NAMES, Gather, Whole
from consensus.observe.measure import AtMean, MeasuredAgents, Metric, measure
from consensus.observe.protocols import Costs, Measures, Method, Personal
from consensus.problems import Problem
from consensus.problems.held_out import OwnedTest
from consensus.problems.minibatches import Minibatches, draw
from consensus.problems.state import TestSet

COUNTED = ("round", *NAMES, "bytes_busiest", "epochs", "seconds")  # known in each round
ALWAYS = ("round", "objective", "stationarity", "disagreement", *COUNTED[1:])
ASKED_FOR = ("agent_objective", "test_error", "test_error_worst", "agent_test_error")


def hides(solver: Method, problem: Costs) -> bool:
    """Return whether the history tells nothing of the data: those of a secret solver's agents on several processes."""
    return solver.secret and problem.agents < problem.network_size


class Recorder:
    """Measures the iterates of the agents, and appends rows to ``history``.

    It records the objective of each agent if `agent_objectives` is True, and `metrics`, functions of the agents' mean (P,). If
    some agents are Byzantine, only the iterates and costs of the `honest` ones are measured. `points` is the number of iterates
    that are measured, by default one of each of these agents; `labels` are the names of all. With `metrics_on` costs and their
    gradients are those of its first batch. If a model's buffers are averaged for evaluation, each row counts what that sends
    along a spanning tree.
    Agents who have models of their own are measured at these, others at their mean. With a solver of `secure` sums those of the
    history are masked, too; with a `secret` one nothing of the data of agents on several processes is measured.
    """

    def __init__(
        self,
        problem: Costs,
        solver: Method,
        test: TestSet | None = None,
        agent_objectives: bool = False,
        metrics: Mapping[str, Metric] | None = None,
        honest: np.ndarray | None = None,
        metrics_on: Minibatches | None = None,
        points: int | None = None,
        labels: tuple[Hashable, ...] | None = None,
    ) -> None:
        self.solver, self.test, self.metrics_on = solver, test, metrics_on
        self.agent_objectives, self.metrics, self.honest = agent_objectives, metrics or {}, honest
        self.points = points or (problem.network_size if honest is None else len(honest))
        self.personal: Personal | None = solver.personal(problem)
        self.attach(problem, Whole())
        measured = labels if labels is None or honest is None else tuple(labels[agent] for agent in honest.tolist())
        self.history = History(measured)
        shards = problem.shards
        self._samples = None if shards is None else shards.samples
        self._model: Any = problem.model
        self._kind = None if self._model is None else self._model.buffers

    def attach(self, problem: Costs, gather: Gather) -> None:
        """Measure with this block of the problem; `gather` collects the others."""
        batch = None if self.metrics_on is None else draw(self.metrics_on, cast(Problem, problem), 0)
        self.problem = (problem if batch is None else cast(Problem, problem).sampled(batch)).true_gradients()
        if isinstance(self.test, OwnedTest):
            self.test = self.test.restrict(cast(Problem, problem).rows)
        self.gather, sizes = gather, None if problem.shards is None else problem.shards.sizes
        # Systems with a server, which are measured where all data are, have no needs.
        secure = getattr(self.solver, "secure", None) if hasattr(self.solver, "needs") else None
        hidden = hides(self.solver, problem)
        self.agents = MeasuredAgents(self.problem, gather, self.honest, self.points, secure)
        asked = self.test, self.agent_objectives
        if self.personal is None:
            self._measures: Measures = (problem.measured or AtMean)(self.agents, self.solver, *asked, sizes, hidden)
        else:
            self._measures = self.personal.measures(self.agents, self.solver, *asked, hidden)

    def resume(self, history: History, path: object) -> None:
        """Continue the history of the checkpoint `path`; raise ValueError if this run has other columns."""
        columns = {*ALWAYS, *self.solver.history_columns, *self.metrics, *self.problem.columns}
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
        history.labels = self.history.labels
        self.history = history

    def record(
        self, round: int, w: np.ndarray, mean: np.ndarray, report: np.ndarray | None, counts: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        """Return the row of a round, appended to the history unless it is there, as the first row of a resumed run is.

        Parameters are those of :class:`consensus.observe.Gathered`, with counts and seconds since the start, and :meth:`mean`.
        """
        if not self.history.rows or self.history.last()["round"] < round:
            own, users = {}, {}
            if report is not None:
                report = self.agents.of(report)
                own = {name: float(join(report[:, k])) for k, (name, join) in enumerate(self.solver.history_columns.items())}
            if self.metrics:
                users = self.gather.once(lambda: measure(self.metrics, mean, round))
            counts = self.counted(counts, seconds, w.itemsize, self.history.rows + 1)
            if BETWEEN_HOSTS in counts and self.history.rows and BETWEEN_HOSTS not in self.history:
                # It was resumed on more machines: until then all agents were on one.
                zeros = np.zeros(self.history.rows, np.int64)
                self.history = history_of(dict(self.history) | {BETWEEN_HOSTS: zeros}, self.history.labels)
            self.history.append({"round": round, **self.measure(w, mean, round), **counts, **own, **users})
        return self.history.last()

    def counted(self, counts: dict[str, Any], seconds: float, size: int, rows: int) -> dict[str, Any]:
        """Return the columns that are counted, not measured, with ``rows`` of the history; numbers have ``size`` bytes."""
        traffic = counts.get("traffic")
        if traffic is not None:
            numbers = {name: count for name, count in counts.items() if name != "traffic"}
            counts = numbers | {"bytes_busiest": int(np.max(traffic))}
        if self._kind == "average" and self.personal is None:
            counts = counts | self._sent(counts, self.points, size, rows)
        return counts | {"epochs": self._epochs(counts), "seconds": seconds}

    def mean(self, w: np.ndarray) -> np.ndarray:
        """Return the mean (P,) of the measured agents, from the iterates `w` of those of this process."""
        return self.agents.mean(w)

    def measure(self, w: np.ndarray, mean: np.ndarray, round: int = 0) -> dict[str, float | np.ndarray]:
        """Return the measured quantities by name, at the iterates `w` of the agents of this process and the `mean` of all."""
        return self._measures.measure(w, mean, round, self.history)

    def _sent(self, counts: dict[str, Any], agents: int, size: int, rows: int) -> dict[str, int]:
        """Return the counts with what it takes to average buffers for ``rows`` of the history."""
        points = rows * (1 + agents * self.agent_objectives)
        messages = 2 * (agents - 1) * points
        floats = messages * self._model.buffer_size
        more = {"messages": messages, "floats": floats, "bytes": size * floats}
        return {name: counts[name] + more[name] for name in more}

    def _epochs(self, counts: dict[str, Any]) -> float:
        """Return the passes over the data; if no samples are counted, one for each gradient."""
        return float(counts["samples"] / self._samples if counts["samples"] else counts["gradients"])
