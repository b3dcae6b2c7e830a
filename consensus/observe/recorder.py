"""What is measured during a run, outside of its clock and of the algorithm."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from consensus import _checks
from consensus._parallel import CHUNK_BYTES
from consensus.data.frames import is_frame, labels
from consensus.data.samples import arrays
from consensus.history import History
from consensus.observe.counts import NAMES
from consensus.observe.gather import Gather, Whole
from consensus.observe.metrics import agents_mean, disagreement, measure
from consensus.problems import Problem
from consensus.problems.base import BaseProblem

ALWAYS = ("round", "objective", "stationarity", "disagreement", *NAMES, "bytes_busiest", "epochs", "seconds")
ASKED_FOR = ("agent_objective", "test_error", "test_error_worst")


class Costs(Protocol):
    """What is observed of a problem, or of a block of its agents."""

    @property
    def agents(self) -> int:
        """How many agents are held here."""

    @property
    def regularizer(self) -> Any:
        """r."""

    def value(self, w: np.ndarray) -> np.ndarray:
        """The agents' costs (agents,) at w (agents, P)."""

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """Their gradients (agents, P)."""


class Method(Protocol):
    """What is observed of a solver, or of a centralised system."""

    @property
    def history_columns(self) -> Mapping[str, Callable[[np.ndarray], Any]]:
        """Its own columns: a name, and how the agents' numbers become one."""

    def prox(self, problem: Any) -> Callable[[np.ndarray, float], np.ndarray]:
        """The prox, ``(v, step) -> w``, by which stationarity is measured."""


class Recorder:
    """Measures what the history shows, at the agents' iterates, and appends its rows.

    Parameters
    ----------
    problem : Problem
    solver : Solver
    test : (X, y), optional
        As :func:`checked_test_set` gives it.
    agent_objectives : bool
    metrics : mapping of str to callable, optional
        The user's own columns, functions of the agents' mean (P,).
    honest : ndarray of int, optional
        The agents that are measured, if some are Byzantine: their iterates, and the cost that they alone have.

    Attributes
    ----------
    history : History
    """

    def __init__(
        self,
        problem: Costs,
        solver: Method,
        test: tuple[np.ndarray, np.ndarray] | None = None,
        agent_objectives: bool = False,
        metrics: Mapping[str, Callable[[np.ndarray], float]] | None = None,
        honest: np.ndarray | None = None,
    ) -> None:
        self.problem, self.solver, self.test = problem, solver, test
        self.agent_objectives, self.metrics, self.honest = agent_objectives, metrics or {}, honest
        self.gather: Gather = Whole()
        self.history = History()

    def attach(self, problem: Costs, gather: Gather) -> None:
        """Measure with this block of the problem, put together by ``gather``."""
        self.problem, self.gather = problem, gather

    def resume(self, history: History, path: object) -> None:
        """Go on with the ``history`` of the checkpoint ``path``; raise ``ValueError`` if this run has other columns."""
        mine = {*ALWAYS, *self.solver.history_columns, *self.metrics}
        mine |= {"agent_objective"} if self.agent_objectives else set()
        mine |= {"test_error", "test_error_worst"} if self.test is not None else set()
        differ = sorted(mine ^ set(history))
        if differ:
            there, here = ([name for name in differ if name in columns] for columns in (history, mine))
            raise ValueError(
                f"{path} has a history with other columns: only there {there}, only here {here}; give the same metrics, test "
                "and agent_objectives"
            )
        self.history = history

    def record(
        self, round: int, w: np.ndarray, report: np.ndarray | None, counts: dict[str, Any], seconds: float
    ) -> dict[str, float | np.ndarray]:
        """The row of ``round``, appended to the history if it is not there yet: a resumed run has its first row already.

        Parameters
        ----------
        round : int
        w : ndarray (A, P)
        report : ndarray (A, columns) or None
            The solver's own, if it has any.
        counts : dict
            What the network sent and computed since the start, as in :class:`consensus.observe.Gathered`,
        seconds : float
            and the time that it took.
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
        """The measured quantities at the iterates ``w`` of all agents that are measured, by name."""
        mean = agents_mean(w)
        row = {
            "objective": self._objective(mean),
            "stationarity": self._stationarity(mean),
            "disagreement": disagreement(w, mean),
        }
        if self.agent_objectives:
            row["agent_objective"] = np.array([self._objective(point) for point in w])
        if self.test is not None:
            row["test_error"] = float(self._test_errors(mean[None])[0])
            row["test_error_worst"] = float(self._test_errors(w).max())
        return row

    def _epochs(self, counts):
        """Passes over the data: where no samples are counted, a gradient is one."""
        samples = counts["samples"]
        return samples / self.problem.shards.samples if samples else float(counts["gradients"])

    def _objective(self, point):
        here = np.broadcast_to(point, (self.problem.agents, len(point)))
        return float(self._total(self.problem.value(here)) + self.problem.regularizer.value(point))

    def _stationarity(self, point):
        here = np.broadcast_to(point, (self.problem.agents, len(point)))
        step = point - self._total(self.problem.gradient(here))
        return float(np.linalg.norm(point - self.solver.prox(self.problem)(step, 1.0)))

    def _total(self, costs):
        """The sum over all agents of what this block has of them; A/H times that of H honest ones if others are Byzantine."""
        everyones = self.gather.rows(costs)
        if self.honest is None:
            return everyones.sum(axis=0)
        return len(everyones) / len(self.honest) * everyones[self.honest].sum(axis=0)

    def _test_errors(self, w):
        """The mean test error of every row of ``w``, a few agents at a time."""
        X, y = self.test
        model = self.problem.model
        few = max(1, CHUNK_BYTES // (len(X) * max(getattr(model, "widths", [model.outputs])) * X.itemsize))
        errors = []
        for first in range(0, len(w), few):
            part = w[first : first + few]
            outputs = model.predict(part, np.broadcast_to(X, (len(part), *X.shape)))
            errors.append(self.problem.loss.error(outputs, np.broadcast_to(y, (len(part), *y.shape))).mean(axis=1))
        return np.concatenate(errors)


def checked_test_set(problem: BaseProblem, test: Any) -> tuple[np.ndarray, np.ndarray]:
    """The arrays of a ``test`` set, (X, y), that fits ``problem``."""
    if not isinstance(problem, Problem):
        raise TypeError(f"test needs a problem with a model; got {problem}")
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
    # Contiguous, as bits of products depend on the order in memory.
    X, y = np.ascontiguousarray(X, shards.features.dtype), np.ascontiguousarray(y, problem.dtype)
    return X, y
