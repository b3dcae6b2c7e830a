"""The user's callbacks: their argument, and their reasons to stop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from consensus import _checks
from consensus.history import History
from consensus.observe.measure import call, check_function, read_only
from consensus.problems.base import BaseProblem


@dataclass(frozen=True, eq=False)
class RoundInfo:
    """A round, as callbacks get it; changing it does not change the run.

    ``info["objective"]`` is ``info.row["objective"]``. In rounds that are not recorded what is measured is that of the newest
    row of the history, whose round is ``info.measured``; what is counted is of this round.

    Parameters
    ----------
    round : int
        Number of rounds done; 0 at the start.
    row : mapping of str to float, int or ndarray
        Columns of the history: see :func:`consensus.solve`.
    history : History
        History of the run, which grows: keep ``info.history.copy()``.
    problem : Problem
        Problem that was given to :func:`consensus.solve`.
    _mean : ndarray (P,)
        Mean of the agents that are measured.
    _everyone : callable
        ``_everyone()`` returns the iterates (A, P) of all agents.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> def watch(info):
    ...     print(info.round, info["exchanges"], info.w.shape, info.mean.round(3).tolist())
    ...     return "small enough" if info["objective"] < 0.1 else None
    >>> solver = consensus.solvers.DGD(0.1)
    >>> result = consensus.solve(
    ...     problem, topologies.ring(3), solver, rounds=100, start=np.ones(1), record_every=1, callbacks=[watch])
    0 0 (3, 1) [1.0]
    1 1 (3, 1) [0.4]
    2 2 (3, 1) [0.16]
    >>> result.reason
    'small enough'
    """

    round: int
    row: Mapping[str, Any]
    history: History
    problem: BaseProblem
    _mean: np.ndarray = field(repr=False)
    _everyone: Callable[[], np.ndarray] = field(repr=False)

    @property
    def measured(self) -> int:
        """The round of the newest row of the history, at which measured columns were measured."""
        return int(self.history.last()["round"])

    @cached_property
    def w(self) -> np.ndarray:
        """A read-only copy of the parameters of all agents, shape (A, P).

        On ranks the first one collects them from the others when a callback asks for them, not later.
        """
        return read_only(self._everyone().copy())

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean of the agents, or of the honest ones if some are Byzantine, shape (P,); read-only."""
        return read_only(self._mean.copy())

    def __getitem__(self, column: str) -> Any:  # noqa: ANN401  # a number or an array
        if column not in self.row:
            raise KeyError(f"no column {column!r}; there are {', '.join(self.row)}")
        return self.row[column]


Callback: TypeAlias = Callable[[RoundInfo], str | None]


def first_reason(callbacks: Sequence[Callback], info: RoundInfo) -> str | None:
    """Call all callbacks, and return the first reason to stop, or None.

    Raise TypeError if a callback returns anything but None or a text. Exceptions of a callback get a note with its name.
    """
    reasons = []
    for number, callback in enumerate(callbacks):
        name = f"callbacks[{number}], {getattr(callback, '__name__', None) or type(callback).__name__}"
        reason = call(name, info.round, callback, info)
        if reason is not None and (not isinstance(reason, str) or not reason):
            raise TypeError(f"{name}, must return None, or the reason to stop as a text; got {_checks.shown(reason)}")
        reasons.append(reason)
    return next(filter(None, reasons), None)


def checked_callbacks(callbacks: Sequence[Callback]) -> tuple[Callback, ...]:
    """Return `callbacks` as a tuple; raise TypeError unless it is a list of functions."""
    wanted = "callbacks must be a list of functions f(info), such as [print]"
    if not isinstance(callbacks, list | tuple):
        raise TypeError(f"{wanted}; got {_checks.shown(callbacks)}")
    for callback in callbacks:
        check_function(wanted, callback)
    return tuple(callbacks)
