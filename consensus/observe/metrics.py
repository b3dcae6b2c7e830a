"""The user's metrics, and the mean and disagreement of the agents."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import TypeAlias, TypeVar

import numpy as np

from consensus import _checks
from consensus._parallel import for_chunks
from consensus._rows import rowwise

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
        if name in taken or name.startswith("agent_objective_"):
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
    first = w[0]
    mean: np.ndarray = first + rowwise(lambda w: w - first, w).mean(axis=0)
    return mean


def disagreement(w: np.ndarray, mean: np.ndarray) -> float:
    """Return ``sqrt(mean_i |w_i - mean|^2)``."""
    squares = np.empty(len(w), w.dtype)

    def chunk(rows: slice) -> None:
        squares[rows] = np.square(w[rows] - mean).sum(axis=1)

    for_chunks(chunk, len(w), 3 * w[0].nbytes)
    return float(np.sqrt(squares.mean()))


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
