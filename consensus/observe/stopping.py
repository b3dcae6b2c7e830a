"""Ends of runs: rules, bounds, early stopping, and the best row that is kept."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from consensus import _checks
from consensus.checkpoints.best import Best
from consensus.history import History
from consensus.observe.callbacks import RoundInfo

_TEXT = re.compile(r"\s*([^\W\d]\w*)\s*(<=|>=|<|>)\s*(\S+)\s*")


@dataclass(frozen=True)
class StopRule:
    """A ``column`` of the history, a ``sign`` and a ``bound``: a run stops at the first recorded round where it holds.

    The text is taken apart by :meth:`parse`, and is never evaluated.
    """

    column: str
    sign: str
    bound: float

    signs: ClassVar[Mapping[str, Callable[[float, float], bool]]] = {
        "<=": operator.le,
        ">=": operator.ge,
        "<": operator.lt,
        ">": operator.gt,
    }

    @classmethod
    def parse(cls, text: object) -> StopRule:
        """Return the rule of a text; raise ``ValueError`` if it is not a column, a sign and a number."""
        wanted = "stop must be a column of the history, one of <=, >=, < and >, and a number, as 'test_error <= 0.08'"
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f"{wanted}; got {_checks.shown(text)}")
        column, sign, number = found.groups()
        try:
            bound = float(number)
        except ValueError:
            bound = math.nan
        if not math.isfinite(bound):
            raise ValueError(f"{wanted}; got {_checks.shown(text)}, where {number} is no finite number")
        return cls(column, sign, bound)

    def reason(self, row: Mapping[str, Any]) -> str | None:
        """Return the reason to stop after a recorded ``row``, or None."""
        value = row[self.column]
        if not self.signs[self.sign](value, self.bound):
            return None
        return f"{self.column} {self.sign} {self.bound:g}: it is {value:.6g} at round {row['round']}"


def checked_column(name: str, column: object, columns: Collection[str], test: str = "test=(X, y)") -> None:
    """Raise ``ValueError`` unless ``column``, of the argument ``name``, is one of the ``columns`` of a run's history.

    ``test`` is how a test set is given.
    """
    if not isinstance(column, str) or column not in columns:
        hint = f"; a test error needs {test}" if str(column).startswith("test_error") else ""
        raise ValueError(f"{name} must have a column of the history, {', '.join(columns)}; got {_checks.shown(column)}{hint}")


@dataclass(frozen=True)
class Stopper:
    """Stops a run at the first recorded round that reaches one of these bounds.

    `tolerance` bounds stationarity and disagreement from above, `exchanges` and `seconds` in rounds from below; `rules` bound
    any columns.
    """

    tolerance: float | None = None
    exchanges: int | None = None
    seconds: float | None = None
    rules: tuple[StopRule, ...] = ()

    def reason(self, row: Mapping[str, Any]) -> str | None:
        """Return the reason to stop after a recorded `row`, or None."""
        round = row["round"]
        if self.tolerance is not None and max(row["stationarity"], row["disagreement"]) <= self.tolerance:
            return f"stationarity and disagreement at most {self.tolerance:g} at round {round}"
        if self.exchanges is not None and row["exchanges"] >= self.exchanges:
            return f"{row['exchanges']} exchanges done at round {round}"
        if self.seconds is not None and row["seconds"] >= self.seconds:
            return f"time budget of {self.seconds:g} s used up at round {round}"
        return next(filter(None, (rule.reason(row) for rule in self.rules)), None)


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
        for number in range(seen, info.history.rows):
            value = info.history.row(number)[self.column]
            best, since = (value, 0) if value < best - self.least else (best, since + 1)
        self._seen[info.history] = info.history.rows, best, since
        if since < self.patience:
            return None
        return f"{self.column} has not fallen for {since} recorded rounds, at round {info.round}: it was {best:.6g} at best"


class Keeper:
    """Keeps the ``best`` point of a run by a ``column``.

    ``regular`` leaves out a last round that is recorded only because it is the last: a checkpoint has that one, so that a run
    of more rounds, which does not record it, goes on as if it had never been stopped.
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self.best: Best | None = None
        self.regular: Best | None = None

    def resume(self, best: Best | None, history: Mapping[str, Any], path: object) -> None:
        """Go on from the best point in the checkpoint ``path``; raise ``ValueError`` if it kept none by this column.

        A ``history`` in which the column is NaN everywhere has no best point yet.
        """
        if best is None and self.column in history and np.isnan(history[self.column]).all():
            return
        if best is None or best.column != self.column:
            kept = "no best point" if best is None else f"the best point by {best.column}"
            raise ValueError(
                f"{path} has {kept}, and this run keeps that by {self.column}: give the same keep=, or best= of Record"
            )
        self.best = self.regular = best

    def better(self, row: Mapping[str, Any]) -> bool:
        """Return whether a recorded ``row`` is better than the best so far."""
        value = float(row[self.column])
        return value == value if self.best is None else value < self.best.value

    def keep(self, row: Mapping[str, Any], mean: np.ndarray, w: np.ndarray | None, regular: bool) -> None:
        """Keep the point of a ``row`` that is better, and the agents' ``w`` if they have models of their own.

        ``regular`` says whether a run of more rounds records it, too.
        """
        round, rows = int(row["round"]), None if w is None else np.array(w)
        self.best = Best(self.column, float(row[self.column]), round, np.array(mean), rows)
        if regular:
            self.regular = self.best
