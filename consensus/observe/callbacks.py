"""A user's callbacks: what they see of a run, and what they may say."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from consensus import _checks
from consensus.history import History
from consensus.observe.metrics import agents_mean, call, check_function, read_only
from consensus.problems.base import BaseProblem


@dataclass(frozen=True, eq=False)
class RoundInfo:
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
        The agents' mean, read-only; that of the honest ones if some are Byzantine.
    """

    round: int
    row: Mapping[str, Any]
    history: History
    problem: BaseProblem
    _iterates: np.ndarray = field(repr=False)
    _honest: np.ndarray | None = field(default=None, repr=False)

    @cached_property
    def w(self) -> np.ndarray:
        return read_only(self._iterates.copy())

    @cached_property
    def mean(self) -> np.ndarray:
        return read_only(agents_mean(self._iterates if self._honest is None else self._iterates[self._honest]))

    def __getitem__(self, column: str) -> Any:
        if column not in self.row:
            raise KeyError(f"no column {column!r}; there are {', '.join(self.row)}")
        return self.row[column]


def ask(callbacks: Sequence[Callable[[RoundInfo], str | None]], seen: RoundInfo) -> str | None:
    """Call all of them; the first reason to stop that one gives, or None.

    Raises
    ------
    TypeError
        If one returns anything else than None or a text; it is named. What a callback itself raises gets a note that names it.
    """
    reasons = []
    for number, callback in enumerate(callbacks):
        name = f"callbacks[{number}], {_name(callback)}"
        reason = call(name, seen.round, callback, seen)
        if reason is not None and (not isinstance(reason, str) or not reason):
            raise TypeError(f"{name}, must return None, or the reason to stop as a text; got {_checks.shown(reason)}")
        reasons.append(reason)
    return next(filter(None, reasons), None)


def checked_callbacks(callbacks: Sequence[Callable]) -> tuple[Callable, ...]:
    """``callbacks`` as a tuple of functions; raise ``TypeError`` where they are something else."""
    wanted = "callbacks must be a list of functions f(seen), such as [print]"
    if not isinstance(callbacks, list | tuple):
        raise TypeError(f"{wanted}; got {_checks.shown(callbacks)}")
    for callback in callbacks:
        check_function(wanted, callback)
    return tuple(callbacks)


def _name(function):
    return getattr(function, "__name__", None) or type(function).__name__
