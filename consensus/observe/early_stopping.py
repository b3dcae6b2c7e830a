"""Stopping when a column of the history no longer falls."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from consensus import _checks
from consensus.history import History
from consensus.observe.callbacks import RoundInfo


@dataclass(frozen=True, kw_only=True)
class EarlyStopping:
    """A callback that stops a run when a column of its history has not fallen for some recorded rounds.

    :func:`consensus.solve` keeps the best point of that column: ``result.best``, which ``result.predictor`` takes. The
    history alone decides, so a resumed run stops where it would have without a break.

    Parameters
    ----------
    column : str
        The column, such as ``"test_error"``.
    patience : int
        The number of recorded rounds without a fall after which the run stops.
    least : float
        A fall by no more than this, from the best value so far, counts as none.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range; by :func:`consensus.solve` if the run has no such column.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.observe import EarlyStopping
    >>> parts = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(parts.X, parts.y, agents=4)
    >>> problem = consensus.Problem(consensus.MLP([10, 20, 1]), consensus.SquaredLoss(), shards)
    >>> result = consensus.solve(problem, topologies.ring(4), rounds=500, record_every=1, test=(parts.X_test, parts.y_test),
    ...                          callbacks=[EarlyStopping(column="test_error", patience=20)])
    >>> result.rounds < 500, result.best.round < result.rounds
    (True, True)
    """

    column: str = "test_error"
    patience: int = 10
    least: float = 0.0
    # Of each history that was seen: the number of rows, the best value, and how many rows ago it was.
    _seen: WeakKeyDictionary[History, tuple[int, float, int]] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise TypeError(f"column must be the name of a column of the history; got {_checks.shown(self.column)}")
        _checks.count("patience", self.patience)
        _checks.number("least", self.least, least=0)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(EarlyStopping, column=self.column, patience=self.patience, least=self.least), ()

    def __call__(self, info: RoundInfo) -> str | None:
        seen, best, since = self._seen.get(info.history, (0, np.inf, 0))
        for value in info.history.get(self.column)[seen:].tolist():
            best, since = (value, 0) if value < best - self.least else (best, since + 1)
        self._seen[info.history] = info.history.rows, best, since
        if since < self.patience:
            return None
        return f"{self.column} has not fallen for {since} recorded rounds, at round {info.round}: it was {best:.6g} at best"
