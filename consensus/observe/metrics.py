"""What users measure of a run by functions of their own."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from consensus import _checks
from consensus._parallel import for_chunks
from consensus._rows import rowwise


def measure(metrics: Mapping[str, Callable[[np.ndarray], float]], mean: np.ndarray, round: int) -> dict[str, float]:
    """The value of every metric at the agents' ``mean``, by name.

    Raises
    ------
    TypeError
        If one is no number; it is named. What a metric itself raises gets a note that names it.
    """
    mean, values = read_only(mean.copy()), {}
    for name, metric in metrics.items():
        value = call(f"metrics[{name!r}]", round, metric, mean)
        values[name] = _number(value)
        if values[name] is None:
            raise TypeError(f"metrics[{name!r}] must return a number; got {_checks.shown(value)}")
    return values


def checked_metrics(metrics: Mapping[str, Callable] | None, taken: Sequence[str]) -> dict[str, Callable]:
    """``metrics`` as a dictionary of functions by name, none of them one of the columns already ``taken``.

    Raises
    ------
    TypeError, ValueError
    """
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
    """Raise ``TypeError``, which says what is ``wanted``, if ``function`` cannot be called."""
    if isinstance(function, type):
        raise TypeError(f"{wanted}; got the class {function.__name__} itself in it: call it")
    if not callable(function):
        raise TypeError(f"{wanted}; got {_checks.shown(function)} in it")


def call(name: str, round: int, function: Callable, argument: Any) -> Any:
    """``function(argument)``; an exception raised there gets a note that names it."""
    try:
        return function(argument)
    except BaseException as error:
        error.add_note(f"in {name}, at round {round}")
        raise


def agents_mean(w: np.ndarray) -> np.ndarray:
    """The mean of the rows of ``w``; exactly the common row where they are equal, so that agreement is measured as zero."""
    first = w[0]
    return first + rowwise(lambda w: w - first, w).mean(axis=0)


def disagreement(w: np.ndarray, mean: np.ndarray) -> float:
    """``sqrt(mean_i |w_i - mean|^2)``."""
    squares = np.empty(len(w), w.dtype)

    def chunk(rows):
        squares[rows] = np.square(w[rows] - mean).sum(axis=1)

    for_chunks(chunk, len(w), 3 * w[0].nbytes)
    return float(np.sqrt(squares.mean()))


def read_only(array: np.ndarray) -> np.ndarray:
    """``array`` itself, which nobody can write to any more."""
    array.flags.writeable = False
    return array


def _number(value):
    """``value``, a number or an array () of any library, as a float; None if it is neither."""
    real = getattr(getattr(value, "dtype", None), "kind", "f") != "c"  # NumPy makes floats of complex numbers, and warns
    if isinstance(value, str) or not real or not (isinstance(value, Real) or getattr(value, "ndim", None) == 0):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last is PyTorch's
        return None
