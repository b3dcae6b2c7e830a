"""Measurements during a run, outside of its clock and of the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from consensus.history import History
from consensus.models.torch_buffers import averaged
from consensus.observe.counts import BETWEEN_HOSTS, NAMES
from consensus.observe.gather import Gather, Whole
from consensus.observe.held_out import HeldOut
from consensus.observe.held_out_read import ReadTest
from consensus.observe.metrics import Metric, agents_mean, disagreement, measure
from consensus.problems import Problem
from consensus.problems.minibatches import Minibatches, draw
from consensus.regularizers import Regularizer
from consensus.storage import history_of

if TYPE_CHECKING:
    from jaxtyping import Float

ALWAYS = ("round", "objective", "stationarity", "disagreement", *NAMES, "bytes_busiest", "epochs", "seconds")
ASKED_FOR = ("agent_objective", "test_error", "test_error_worst")


class Costs(Protocol):
    """What is observed of a problem, or of a block of its agents."""

    @property
    def agents(self) -> int:
        """Number of agents of the block."""
        ...

    @property
    def regularizer(self) -> Regularizer:
        """The regularizer r."""
        ...

    def value(self, w: Float[np.ndarray, "agents parameters"]) -> Float[np.ndarray, " agents"]:
        """Return the agents' costs."""
        ...

    def gradient(self, w: Float[np.ndarray, "agents parameters"]) -> Float[np.ndarray, "agents parameters"]:
        """Return the gradients of the agents' costs."""
        ...

    def value_and_gradient(
        self, w: Float[np.ndarray, "agents parameters"]
    ) -> tuple[Float[np.ndarray, " agents"], Float[np.ndarray, "agents parameters"]]:
        """Return both."""
        ...


class Method(Protocol):
    """What is observed of a solver, or of a centralised system."""

    @property
    def history_columns(self) -> Mapping[str, Callable[[np.ndarray], Any]]:
        """Its columns of the history: for each a function that turns the agents' numbers into one."""
        ...

    def prox(self, problem: Any) -> Callable[[np.ndarray, float], np.ndarray]:  # noqa: ANN401  # each method has its problems
        """Return the proximal operator ``(v, step) -> w`` by which stationarity is measured."""
        ...


class Recorder:
    """Measures the iterates of the agents, and appends rows to ``history``.

    It records the objective of each agent if `agent_objectives` is True, and `metrics`, functions of the agents' mean (P,). If
    some agents are Byzantine, only the iterates and costs of the `honest` ones are measured. With `metrics_on` costs and their
    gradients are those of its first batch. If a model's buffers are averaged for evaluation, each row counts what that sends
    along a spanning tree.
    """

    def __init__(
        self,
        problem: Costs,
        solver: Method,
        test: HeldOut | ReadTest | None = None,
        agent_objectives: bool = False,
        metrics: Mapping[str, Metric] | None = None,
        honest: np.ndarray | None = None,
        metrics_on: Minibatches | None = None,
    ) -> None:
        self.solver, self.test, self.metrics_on = solver, test, metrics_on
        self.agent_objectives, self.metrics, self.honest = agent_objectives, metrics or {}, honest
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
        self.gather, self._sizes = gather, getattr(getattr(problem, "shards", None), "sizes", None)

    def resume(self, history: History, path: object) -> None:
        """Continue the history of the checkpoint `path`; raise ValueError if this run has other columns."""
        columns = {*ALWAYS, *self.solver.history_columns, *self.metrics}
        columns |= {"agent_objective"} if self.agent_objectives else set()
        columns |= {"test_error", "test_error_worst"} if self.test is not None else set()
        given = set(history) - {BETWEEN_HOSTS}
        if columns ^ given:
            there, here = sorted(given - columns), sorted(columns - given)
            raise ValueError(
                f"{path} has a history with other columns: only there {there}, only here {here}; give the same metrics, test "
                "and agent_objectives"
            )
        self.history = history

    def record(
        self, round: int, w: np.ndarray, report: np.ndarray | None, counts: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        """Return the row of a round, appended to the history unless it is there, as the first row of a resumed run is.

        Parameters are those of :class:`consensus.observe.Gathered`, with counts and seconds since the start.
        """
        if not self.history.rows or self.history.last()["round"] < round:
            own, users = {}, {}
            measured = self._measured(w)
            if report is not None:
                report = self._measured(report)
                own = {name: float(join(report[:, k])) for k, (name, join) in enumerate(self.solver.history_columns.items())}
            if self.metrics:
                users = self.gather.once(lambda: measure(self.metrics, agents_mean(measured), round))
            traffic = counts.get("traffic")
            if traffic is not None:
                numbers = {name: count for name, count in counts.items() if name != "traffic"}
                counts = numbers | {"bytes_busiest": int(np.max(traffic))}
            if self._kind == "average":
                counts = counts | self._sent(counts, len(measured), w.itemsize)
            if BETWEEN_HOSTS in counts and self.history.rows and BETWEEN_HOSTS not in self.history:
                # It was resumed on more machines: until then all agents were on one.
                zeros = np.zeros(self.history.rows, np.int64)
                self.history = history_of(dict(self.history) | {BETWEEN_HOSTS: zeros})
            clock = {"epochs": self._epochs(counts), "seconds": seconds}
            self.history.append({"round": round, **self.measure(w), **counts, **clock, **own, **users})
        return self.history.last()

    def measure(self, w: np.ndarray) -> dict[str, float | np.ndarray]:
        """Return the measured quantities by name, at the iterates `w` of all agents."""
        everyone, w = w, self._measured(w)
        mean = agents_mean(w)
        buffers = self._averaged(mean)
        objective, stationarity = self._at(mean, buffers)
        row: dict[str, float | np.ndarray] = {
            "objective": objective,
            "stationarity": stationarity,
            "disagreement": disagreement(w, mean),
        }
        if self.agent_objectives:
            row["agent_objective"] = np.array([self._objective(point, self._averaged(point)) for point in w])
        if self.test is not None and self._kind == "keep":  # each agent has a mean model of its own
            means = np.broadcast_to(mean, everyone.shape)
            row["test_error"] = float(self.test.errors(self._measured(means), self._buffers(means)).mean())
            row["test_error_worst"] = float(self.test.errors(w, self._buffers(everyone)).max())
        elif self.test is not None:
            row["test_error"] = float(self.test.errors(mean[None], buffers)[0])
            row["test_error_worst"] = float(self.test.errors(w, buffers).max())
        return row

    def _measured(self, rows: np.ndarray) -> np.ndarray:
        return rows if self.honest is None else rows[self.honest]

    def _buffers(self, w: np.ndarray) -> np.ndarray:
        """Return the buffers of each measured agent at its own of the points `w` of all agents."""
        problem: Any = self.problem
        return self._measured(self.gather.rows(problem.buffers(w[problem.rows])))

    def _averaged(self, point: np.ndarray) -> np.ndarray | None:
        """Return the buffers of all measured agents' samples at a point, if the model's are averaged."""
        if self._kind != "average":
            return None
        problem: Any = self.problem
        buffers = self._buffers(np.broadcast_to(point, (problem.network_size, len(point))))
        assert self._sizes is not None, "a problem with samples"
        return averaged(buffers, self._measured(self.gather.rows(self._sizes)))

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
        step = point - self._total(gradients)
        return objective, float(np.linalg.norm(point - self.solver.prox(self.problem)(step, 1.0)))

    def _objective(self, point: np.ndarray, buffers: np.ndarray | None) -> float:
        problem: Any = self.problem
        same = np.broadcast_to(point, (problem.agents, len(point)))
        costs = problem.value(same) if buffers is None else problem.evaluated(buffers).value(same)
        return self._with_regularizer(costs, point)

    def _with_regularizer(self, costs: np.ndarray, point: np.ndarray) -> float:
        return float(self._total(costs) + self.problem.regularizer.value(point))

    def _total(self, costs: np.ndarray) -> np.ndarray:
        """Return the sum over all A agents, or A / H times the sum over H honest ones if others are Byzantine."""
        rows = self.gather.rows(costs)
        total: np.ndarray
        if self.honest is None:
            total = rows.sum(axis=0)
        else:
            total = len(rows) / len(self.honest) * rows[self.honest].sum(axis=0)
        return total
