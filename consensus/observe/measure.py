"""Measurements of iterates: distances and means over the measured agents, and at the mean of agents who look for one model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from consensus import _checks
from consensus._arrays.parallel import for_chunks
from consensus._arrays.rows import rowwise
from consensus._columns import check_name
from consensus.observe.gather import Gather, added
from consensus.observe.protocols import Costs, Method, Secure
from consensus.problems.held_out import OwnedTest, SharedTest
from consensus.problems.samples import averaged
from consensus.problems.state import TestSet
from topologies import _names

Metric: TypeAlias = Callable[[np.ndarray], float]
Argument = TypeVar("Argument")
Result = TypeVar("Result")


def measure(metrics: Mapping[str, Metric], mean: np.ndarray, round: int) -> dict[str, float]:
    """Return the value of every metric at the agents' `mean`.

    Raise TypeError if a value is not a number. Exceptions of a metric get a note with its name.
    """
    mean, values = read_only(mean.copy()), {}
    for name, metric in metrics.items():
        value = call(f"metrics[{name!r}]", round, metric, mean)
        number = _number(value)
        if number is None:
            raise TypeError(f"metrics[{name!r}] must return a number; got {_checks.shown(value)}")
        values[name] = number
    return values


def checked_metrics(metrics: Mapping[str, Metric] | None, taken: Sequence[str]) -> dict[str, Metric]:
    """Return `metrics` as a dictionary of functions; raise TypeError or ValueError if a name is that of a column `taken`."""
    wanted = "metrics must be a mapping of names to functions f(mean), such as {'norm': np.linalg.norm}"
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping) or not all(isinstance(name, str) and name for name in metrics):
        raise TypeError(f"{wanted}; got {_checks.shown(metrics)}")
    for name, metric in metrics.items():
        check_function(wanted, metric)
        check_name(name)
        if name in taken or name.startswith(("agent_objective_", "agent_test_error_")):
            raise ValueError(f"metrics must have names of their own; {name!r} is taken, as are {', '.join(taken)}")
    return dict(metrics)


def check_function(wanted: str, function: object) -> None:
    """Raise TypeError if `function` cannot be called; the message begins with `wanted`."""
    if isinstance(function, type):
        raise TypeError(f"{wanted}; got the class {function.__name__} itself in it: call it")
    if not callable(function):
        raise TypeError(f"{wanted}; got {_checks.shown(function)} in it")


def call(name: str, round: int, function: Callable[[Argument], Result], argument: Argument) -> Result:
    """Return ``function(argument)``; an exception gets a note with the `name` of the function."""
    try:
        return function(argument)
    except BaseException as error:
        error.add_note(f"in {name}, at round {round}")
        raise


def agents_mean(w: np.ndarray) -> np.ndarray:
    """Return the mean of the rows of `w`: exactly the common row if all are equal, so that the disagreement is zero."""
    return mean_of(begun(w), len(w))


def begun(w: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
    """Return a row, by default the first of `w`, and the sum (2, P) of what rows differ from it by.

    If `before` is what this returned for rows before those of `w`, both are in the sum.
    """
    first, total = (w[0], np.zeros_like(w[0])) if before is None else before
    return np.stack([first, added(total, rowwise(lambda w: w - first, w))])


def mean_of(sums: np.ndarray, agents: int) -> np.ndarray:
    """Return the mean of so many `agents` from the `sums` of :func:`begun`."""
    first, total = sums
    return cast(np.ndarray, first + total / agents)


def squared_distances(w: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return ``|w_i - mean|^2`` (agents,)."""
    squares = np.zeros_like(w, shape=len(w))

    def chunk(rows: slice) -> None:
        squares[rows] = np.square(w[rows] - mean).sum(axis=1)

    for_chunks(chunk, len(w), 3 * w[:1].nbytes)
    return squares


def read_only(array: np.ndarray) -> np.ndarray:
    """Return `array` itself, made read-only."""
    array.flags.writeable = False
    return array


def _number(value: object) -> float | None:
    """Return a real number or an array () of any library as a float; None for anything else."""
    real = getattr(getattr(value, "dtype", None), "kind", "f") != "c"  # NumPy would convert complex numbers, with a warning
    if isinstance(value, str) or not real or not (isinstance(value, Real) or getattr(value, "ndim", None) == 0):
        return None
    try:
        return float(value)  # type: ignore[arg-type]  # an array () of another library
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last is PyTorch's
        return None


def measured_agents(
    honest: Sequence[int | str] | None, solver: object, agents: int, labels: tuple[Hashable, ...] | None = None
) -> np.ndarray | None:
    """Return the agents that are measured, in ascending order, or None for all.

    By default they are all but the ``byzantine`` agents of `solver`, or of a solver that it wraps. Raise TypeError or
    ValueError unless `honest` holds different agents.
    """
    if honest is None:
        found = np.ones(agents, bool)
        layer: object | None = solver
        while layer is not None:
            found[list(getattr(layer, "byzantine", ()))] = False
            layer = getattr(layer, "solver", None)
    else:
        numbers = _checks.dense(
            "honest", _names.places("honest", honest, labels) if isinstance(honest, list | tuple) else honest
        )
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise TypeError(f"honest must be agents' numbers, such as [0, 1, 3]; got {_checks.shown(honest)}")
        if len(np.unique(numbers)) < len(numbers) or numbers.min() < 0 or numbers.max() >= agents:
            raise ValueError(f"honest must be different agents among 0 .. {agents - 1}; got {_checks.shown(honest)}")
        found = np.isin(np.arange(agents), numbers)
    return None if found.all() else np.flatnonzero(found)


class MeasuredAgents:
    """Numbers, sums and means over the measured agents: all of them, or the `honest` ones if others are Byzantine.

    This process has the agents of a block of the `problem`; `gather` collects the others. `points` is the number of iterates
    that are measured, one of each agent unless there is a server. With `secure` sums of costs and gradients are in fixed point,
    and processes send each other masked terms.
    """

    def __init__(
        self, problem: Costs, gather: Gather, honest: np.ndarray | None, points: int, secure: Secure | None = None
    ) -> None:
        self.problem, self.gather, self.honest, self.points, self.secure = problem, gather, honest, points, secure
        first = 0 if honest is None else honest[0]
        self._begins = bool(problem.rows[0] <= first <= problem.rows[-1])  # whether the first of the measured agents is here
        self._own = None if honest is None else np.flatnonzero(np.isin(problem.rows, honest))

    @property
    def share(self) -> float:
        """The number of agents for each one that is measured."""
        return 1.0 if self.honest is None else self.problem.network_size / len(self.honest)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return those of the measured agents among `rows` of all agents."""
        return rows if self.honest is None else rows[self.honest]

    def numbers(
        self, function: Callable[[slice | np.ndarray], np.ndarray], agents: int, dtype: np.dtype | type = float
    ) -> np.ndarray:
        """Return a number of each measured agent: ``function(rows)`` are those of some of the `agents` of this process."""
        numbers, own = np.zeros(agents, dtype), slice(0, agents) if self._own is None else self._own
        if self._own is None or len(self._own):
            found = function(own)
            numbers = np.zeros_like(found, shape=agents, dtype=dtype)
            numbers[own] = found
        return self.of(self.gather.rows(numbers))

    def mean(self, w: np.ndarray) -> np.ndarray:
        """Return the mean (P,) of the measured agents, from the iterates `w` of those of this process."""
        own = w if self._own is None else w[self._own]

        def more(before: np.ndarray) -> np.ndarray:
            return begun(own, None if self._begins else before) if len(own) else before

        return mean_of(self.gather.chain(more, np.zeros((2, w.shape[1]), w.dtype)), self.points)

    def cost(self, costs: np.ndarray) -> float:
        """Return the sum of the agents' costs, of those of this process (agents,), as :meth:`total` does."""
        if self.secure is not None:
            return float(self._masked(self.secure, costs[:, None])[0])
        return float(self.share * self.of(self.gather.rows(costs)).sum())

    def total(self, gradients: np.ndarray) -> np.ndarray:
        """Return the sum of the gradients over all A agents, or A / H times that over H honest ones if others are Byzantine."""
        if self.secure is not None:
            return self._masked(self.secure, gradients).astype(gradients.dtype)
        own = gradients if self._own is None else gradients[self._own]
        return self.share * self.gather.chain(lambda total: added(total, own), np.zeros_like(gradients[0]))

    def _masked(self, secure: Secure, rows: np.ndarray) -> np.ndarray:
        codes = secure.encode(rows, self.problem.rows, self.problem.network_size)
        return secure.decode(self.gather.masked_sum(codes, secure.masks))

    def iterates(self, w: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the iterate of each measured agent, in all processes, from those of this process."""
        measured = None if self.honest is None else set(self.honest.tolist())
        for agent, point in enumerate(itertools.chain.from_iterable(self.gather.parts(w))):
            if measured is None or agent in measured:
                yield point


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
        self._kind = None if self.problem.model is None else self.problem.model.buffers

    def measure(self, w: np.ndarray, mean: np.ndarray, round: int = 0, past: object = None) -> dict[str, float | np.ndarray]:
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
        return {"test_error": of_points[0], "test_error_worst": max(of_points[1:]), "agent_test_error": errors[0] / weights}

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
