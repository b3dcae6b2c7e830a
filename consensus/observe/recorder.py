"""Measurements during a run, outside of its clock and of the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np

from consensus import _checks
from consensus._parallel import CHUNK_BYTES
from consensus.data.frames import is_frame, labels
from consensus.data.samples import arrays
from consensus.history import History
from consensus.losses import Loss
from consensus.models import Model
from consensus.observe.counts import NAMES
from consensus.observe.gather import Gather, Whole
from consensus.observe.metrics import Metric, agents_mean, disagreement, measure
from consensus.problems import LazyProblem, Problem
from consensus.problems.base import BaseProblem
from consensus.problems.minibatches import Minibatches, draw
from consensus.regularizers import Regularizer

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


class Method(Protocol):
    """What is observed of a solver, or of a centralised system."""

    @property
    def history_columns(self) -> Mapping[str, Callable[[np.ndarray], Any]]:
        """Its columns of the history: for each a function that turns the agents' numbers into one."""
        ...

    def prox(self, problem: Any) -> Callable[[np.ndarray, float], np.ndarray]:  # noqa: ANN401  # each method has its problems
        """Return the proximal operator ``(v, step) -> w`` by which stationarity is measured."""
        ...


class HeldOut(NamedTuple):
    """A test set, and the model and loss that are evaluated on it.

    ``shares`` (samples,) sum to one: the weights of the samples in the mean error; None if they are equal.
    """

    features: np.ndarray
    targets: np.ndarray
    model: Model
    loss: Loss
    shares: np.ndarray | None = None


class Recorder:
    """Measures the iterates of the agents, and appends rows to ``history``.

    It records the objective of each agent if `agent_objectives` is True, and `metrics`, functions of the agents' mean (P,). If
    some agents are Byzantine, only the iterates and costs of the `honest` ones are measured. With `metrics_on` costs and their
    gradients are those of its first batch.
    """

    def __init__(
        self,
        problem: Costs,
        solver: Method,
        test: HeldOut | None = None,
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

    def attach(self, problem: Costs, gather: Gather) -> None:
        """Measure with this block of the problem; `gather` collects the others."""
        batch = draw(self.metrics_on, cast(Problem, problem), 0)
        self.problem = problem if batch is None else cast(Problem, problem).sampled(batch)
        self.gather = gather

    def resume(self, history: History, path: object) -> None:
        """Continue the history of the checkpoint `path`; raise ValueError if this run has other columns."""
        columns = {*ALWAYS, *self.solver.history_columns, *self.metrics}
        columns |= {"agent_objective"} if self.agent_objectives else set()
        columns |= {"test_error", "test_error_worst"} if self.test is not None else set()
        if columns ^ set(history):
            there, here = sorted(set(history) - columns), sorted(columns - set(history))
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
            if self.honest is not None:
                w, report = w[self.honest], None if report is None else report[self.honest]
            if report is not None:
                own = {name: float(join(report[:, k])) for k, (name, join) in enumerate(self.solver.history_columns.items())}
            if self.metrics:
                users = self.gather.once(lambda: measure(self.metrics, agents_mean(w), round))
            traffic = counts.get("traffic")
            if traffic is not None:
                numbers = {name: count for name, count in counts.items() if name != "traffic"}
                counts = numbers | {"bytes_busiest": int(np.max(traffic))}
            clock = {"epochs": self._epochs(counts), "seconds": seconds}
            self.history.append({"round": round, **self.measure(w), **counts, **clock, **own, **users})
        return self.history.last()

    def measure(self, w: np.ndarray) -> dict[str, float | np.ndarray]:
        """Return the measured quantities by name, at the iterates `w` of all agents that are measured."""
        mean = agents_mean(w)
        row: dict[str, float | np.ndarray] = {
            "objective": self._objective(mean),
            "stationarity": self._stationarity(mean),
            "disagreement": disagreement(w, mean),
        }
        if self.agent_objectives:
            row["agent_objective"] = np.array([self._objective(point) for point in w])
        if self.test is not None:
            row["test_error"] = float(_test_errors(self.test, mean[None])[0])
            row["test_error_worst"] = float(_test_errors(self.test, w).max())
        return row

    def _epochs(self, counts: dict[str, Any]) -> float:
        """Return the passes over the data; if no samples are counted, one for each gradient."""
        return float(counts["samples"] / self._samples if counts["samples"] else counts["gradients"])

    def _objective(self, point: np.ndarray) -> float:
        same = np.broadcast_to(point, (self.problem.agents, len(point)))
        return float(self._total(self.problem.value(same)) + self.problem.regularizer.value(point))

    def _stationarity(self, point: np.ndarray) -> float:
        same = np.broadcast_to(point, (self.problem.agents, len(point)))
        step = point - self._total(self.problem.gradient(same))
        return float(np.linalg.norm(point - self.solver.prox(self.problem)(step, 1.0)))

    def _total(self, costs: np.ndarray) -> np.ndarray:
        """Return the sum over all A agents, or A / H times the sum over H honest ones if others are Byzantine."""
        rows = self.gather.rows(costs)
        total: np.ndarray
        if self.honest is None:
            total = rows.sum(axis=0)
        else:
            total = len(rows) / len(self.honest) * rows[self.honest].sum(axis=0)
        return total


def _test_errors(test: HeldOut, w: np.ndarray) -> np.ndarray:
    """Return the mean test error of every row of `w`, a few rows at a time."""
    X, y, model, loss, shares = test
    few = max(1, CHUNK_BYTES // (len(X) * max(getattr(model, "widths", [model.outputs])) * X.itemsize))
    errors = []
    for first in range(0, len(w), few):
        rows = w[first : first + few]
        outputs = model.predict(rows, np.broadcast_to(X, (len(rows), *X.shape)))
        of_samples = loss.error(outputs, np.broadcast_to(y, (len(rows), *y.shape)))
        errors.append(of_samples.mean(axis=1) if shares is None else of_samples @ shares)
    return np.concatenate(errors)


def checked_test_set(problem: BaseProblem, test: Any) -> HeldOut:  # noqa: ANN401  # arrays or frames of any library
    """Return a test set (X, y) with the model and loss of `problem`; raise TypeError or ValueError if it does not fit them."""
    if isinstance(problem, LazyProblem) and problem.trial is not None:
        problem = problem.trial  # whose samples are like all others
    if not isinstance(problem, Problem):
        raise TypeError(f"test needs a problem with a model, and features of one shape; got {problem}: give metrics=")
    try:
        X, y = test
    except (TypeError, ValueError) as error:
        raise TypeError(f"test must be a pair (X, y); got {_checks.shown(test)}") from error
    _checks.needs("test", problem.loss, "error")
    shards = problem.shards
    if shards.columns is not None and is_frame(X):
        X = shards.columns.transform(X, "X of test")
    X, y = arrays(X, labels("y of test", y, shards.classes)[0], ("X of test", "y of test"))
    features = shards.features.shape[2:]
    if X.shape[1:] != features:
        raise ValueError(f"test features must have shape {features} a sample, as in training; got {X.shape[1:]}")
    problem.loss.check(y, problem.model.outputs)
    counts = problem.loss.label_counts(y) if hasattr(problem.loss, "label_counts") else 1.0
    shares = counts / counts.sum() if isinstance(counts, np.ndarray) and counts.any() else None
    if isinstance(counts, np.ndarray) and shares is None:
        raise ValueError(f"y of test must have labels that count with {problem.loss}; it ignores them all")
    # Contiguous, because bits of products depend on the order in memory.
    X, y = np.ascontiguousarray(X, shards.features.dtype), np.ascontiguousarray(y, problem.dtype)
    return HeldOut(X, y, problem.model, problem.loss, shares)
