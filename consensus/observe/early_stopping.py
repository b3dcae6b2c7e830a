"""Stopping when a column of the history no longer falls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consensus import _checks
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

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise TypeError(f"column must be the name of a column of the history; got {_checks.shown(self.column)}")
        _checks.count("patience", self.patience)
        _checks.number("least", self.least, least=0)

    def __call__(self, info: RoundInfo) -> str | None:
        best, since = np.inf, 0
        for value in info.history[self.column].tolist():
            best, since = (value, 0) if value < best - self.least else (best, since + 1)
        if since < self.patience:
            return None
        return f"{self.column} has not fallen for {since} recorded rounds, at round {info.round}: it was {best:.6g} at best"
