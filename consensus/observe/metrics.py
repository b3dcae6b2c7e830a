"""The user's metrics, and the mean and disagreement of the agents."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import TypeAlias, TypeVar

import numpy as np

from consensus import _checks
from consensus._columns import check_name
from consensus._parallel import for_chunks
from consensus._rows import rowwise
from consensus.observe.sums import added

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
    mean: np.ndarray = first + total / agents
    return mean


def squared_distances(w: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return ``|w_i - mean|^2`` (agents,)."""
    squares = np.empty(len(w), w.dtype)

    def chunk(rows: slice) -> None:
        squares[rows] = np.square(w[rows] - mean).sum(axis=1)

    for_chunks(chunk, len(w), 3 * mean.nbytes)
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
