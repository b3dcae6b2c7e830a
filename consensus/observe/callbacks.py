"""A user's own functions in a run: what they see, and what they may say."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from consensus import _checks
from consensus.history import History
from consensus.problems.base import BaseProblem


@dataclass(frozen=True, eq=False)
class Seen:
    """What a callback sees of a recorded round. Nothing in it leads back into the run.

    ``seen["objective"]`` is ``seen.row["objective"]``.

    Attributes
    ----------
    round : int
        Rounds done; 0 at the start.
    row : mapping of str to float, int or ndarray
        The history's newest row, by column: see :func:`consensus.solve`.
    history : History
        All rows so far. It is the run's own, and grows: keep ``seen.history.copy()``.
    problem : Problem
        As given to :func:`consensus.solve`.
    w : ndarray (agents, P)
        A read-only copy of all agents' parameters.
    mean : ndarray (P,)
        The agents' mean, read-only.
    """

    round: int
    row: Mapping[str, Any]
    history: History
    problem: BaseProblem
    _iterates: np.ndarray = field(repr=False)

    @cached_property
    def w(self) -> np.ndarray:
        return read_only(self._iterates.copy())

    @cached_property
    def mean(self) -> np.ndarray:
        return read_only(agents_mean(self._iterates))

    def __getitem__(self, column: str) -> Any:
        if column not in self.row:
            raise KeyError(f"no column {column!r}; there are {', '.join(self.row)}")
        return self.row[column]


def agents_mean(w: np.ndarray) -> np.ndarray:
    """The mean of the rows of ``w``; exactly the common row where they are equal, so that agreement is measured as zero."""
    return w[0] + (w - w[0]).mean(axis=0)


def read_only(array: np.ndarray) -> np.ndarray:
    """``array`` itself, which nobody can write to any more."""
    array.flags.writeable = False
    return array


def ask(callbacks: Sequence[Callable[[Seen], str | None]], seen: Seen) -> str | None:
    """Call all of them; the first reason to stop that one gives, or None.

    Raises
    ------
    TypeError
        If one returns anything else than None or a text; it is named. What a callback itself raises gets a note that names it.
    """
    reasons = []
    for number, callback in enumerate(callbacks):
        name = f"callbacks[{number}], {_name(callback)}"
        reason = _call(name, seen.round, callback, seen)
        if reason is not None and (not isinstance(reason, str) or not reason):
            raise TypeError(f"{name}, must return None, or the reason to stop as a text; got {_checks.shown(reason)}")
        reasons.append(reason)
    return next(filter(None, reasons), None)


def measure(metrics: Mapping[str, Callable[[np.ndarray], float]], mean: np.ndarray, round: int) -> dict[str, float]:
    """The value of every metric at the agents' ``mean``, by name.

    Raises
    ------
    TypeError
        If one is no number; it is named. What a metric itself raises gets a note that names it.
    """
    mean, values = read_only(mean.copy()), {}
    for name, metric in metrics.items():
        value = _call(f"metrics[{name!r}]", round, metric, mean)
        values[name] = _number(value)
        if values[name] is None:
            raise TypeError(f"metrics[{name!r}] must return a number; got {_checks.shown(value)}")
    return values


def checked_callbacks(callbacks: Sequence[Callable]) -> tuple[Callable, ...]:
    """``callbacks`` as a tuple of functions; raise ``TypeError`` where they are something else."""
    wanted = "callbacks must be a list of functions f(seen), such as [print]"
    if not isinstance(callbacks, list | tuple):
        raise TypeError(f"{wanted}; got {_checks.shown(callbacks)}")
    for callback in callbacks:
        _check_function(wanted, callback)
    return tuple(callbacks)


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
        _check_function(wanted, metric)
        if name in taken or name.startswith("agent_objective_"):
            raise ValueError(f"metrics must have names of their own; {name!r} is taken, as are {', '.join(taken)}")
    return dict(metrics)


def _check_function(wanted, function):
    if isinstance(function, type):
        raise TypeError(f"{wanted}; got the class {function.__name__} itself in it: call it")
    if not callable(function):
        raise TypeError(f"{wanted}; got {_checks.shown(function)} in it")


def _number(value):
    """``value``, a number or an array () of any library, as a float; None if it is neither."""
    if isinstance(value, str) or np.iscomplexobj(value) or not (isinstance(value, Real) or getattr(value, "ndim", None) == 0):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _name(function):
    return getattr(function, "__name__", None) or type(function).__name__


def _call(name, round, function, argument):
    """``function(argument)``; an exception raised there gets a note that names it."""
    try:
        return function(argument)
    except Exception as error:
        error.add_note(f"in {name}, at round {round}")
        raise
