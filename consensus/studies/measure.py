"""Measures of a study: a cost to reach a level, a column after a budget, or a function of a result."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import consensus
from consensus import _checks
from consensus.history import History
from consensus.studies.grid import named

_FORMS = '"exchanges to objective 1%", "objective after 1000 exchanges", or a function of a result'
_TO = re.compile(r"(?P<cost>\w+) to (?P<column>\w+) (?P<level>[^\s%]+)(?P<percent>%?)")
_AFTER = re.compile(r"(?P<column>\w+) after (?P<level>\S+) (?P<cost>\w+)")


class Outcome(NamedTuple):
    """The part of a run that a study keeps in memory; the file has all of it."""

    history: History
    rounds: int
    reason: str
    failed: bool
    path: Path


class Value(NamedTuple):
    """A measure of a run; ``missed`` if the run did not get there: then the number is the budget it had."""

    number: float
    missed: bool = False

    @property
    def rank(self) -> float:
        """The number, or infinity for a run that did not get there."""
        return math.inf if self.missed or math.isnan(self.number) else self.number


@dataclass(frozen=True)
class Measure:
    """A measure, of which less is better.

    Parameters
    ----------
    text : str
        How tables call it.
    cost, column : str
        The column that is counted, and the one that is to get low; both empty with a function.
    level : float
        The level of ``column``, a part of the gap between start and lowest if ``relative``; or the budget of ``cost`` if
        ``after``.
    relative, after : bool
        See ``level``.
    function : callable, optional
        The function of a result.
    """

    text: str
    cost: str = ""
    column: str = ""
    level: float = 0.0
    relative: bool = False
    after: bool = False
    function: Callable[[Any], float] | None = None

    @classmethod
    def of(cls, measure: object) -> Measure:
        """Return the measure that a text or a function stands for."""
        if callable(measure):
            return cls(named(measure), function=measure)
        if not isinstance(measure, str):
            raise TypeError(f"measure must be {_FORMS}; got {_checks.shown(measure)}")
        after = _AFTER.fullmatch(measure.strip())
        found = after or _TO.fullmatch(measure.strip())
        try:
            if found is None:
                raise ValueError
            level = float(found["level"].replace(",", "").replace("_", ""))
        except ValueError:
            raise ValueError(f"measure must be {_FORMS}; got {measure!r}") from None
        relative = not after and bool(found["percent"])
        if not math.isfinite(level) or (relative and not 0 < level < 100) or (after and level < 0):
            wanted = "between 0% and 100%" if relative else "a finite number" + (" >= 0" if after else "")
            raise ValueError(f"the level of measure must be {wanted}; got {measure!r}")
        return cls(measure.strip(), found["cost"], found["column"], level / 100 if relative else level, relative, bool(after))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return () if self.function else (self.cost, self.column)

    def level_of(self, outcomes: Sequence[Outcome], lowest: float | None) -> float:
        """Return the level that runs from one start are to reach, relative to the ``lowest``, by default theirs."""
        if not self.relative:
            return self.level
        columns = [outcome.history[self.column] for outcome in outcomes if outcome.history.rows]
        least = [float(column[np.isfinite(column)].min()) for column in columns if np.isfinite(column).any()]
        if not least:
            return math.nan
        lowest = min(least) if lowest is None else lowest
        return lowest + self.level * (float(columns[0][0]) - lowest)

    def value(self, outcome: Outcome, level: float, rounds: int) -> Value:
        """Return the measure of a run that had so many ``rounds``."""
        if self.function is not None:
            if outcome.failed:
                return Value(math.inf, True)
            result = consensus.load(outcome.path)
            try:
                found = self.function(result)
            except Exception as error:
                error.add_note(f"This was in the measure {self.text}, of the run in {outcome.path}.")
                raise
            try:
                return Value(float(found), not math.isfinite(float(found)))
            except (TypeError, ValueError):
                raise TypeError(f"measure {self.text} must return a number; got {_checks.shown(found)}") from None
        history = outcome.history
        if not history.rows:
            return Value(math.inf, True)
        cost, column = history[self.cost].astype(float), history[self.column].astype(float)
        if self.after:
            within = int(np.searchsorted(cost, self.level, side="right")) - 1
            short = cost[-1] < self.level and outcome.failed
            return Value(math.inf, True) if short or not np.isfinite(column[within]) else Value(float(column[within]))
        above = np.flatnonzero(~(column <= level))
        reached = above[-1] + 1 if len(above) else 0  # the first row from which on it stays there
        if not outcome.failed and reached < history.rows:
            return Value(float(cost[reached]))
        spent = float(cost[-1])
        if outcome.failed:  # what all rounds would have cost
            done = int(history["round"][-1]) if "round" in history else outcome.rounds
            spent = spent * rounds / done if done else math.inf
        return Value(spent, True)

    def merit(self, outcomes: Sequence[Outcome], levels: Sequence[float], rounds: int) -> tuple[int, float, float]:
        """Return how many runs do not get there, the median over seeds, and, where it is out of reach, how low the column got.

        Less is better, in this order: a setting that is fast with most seeds and diverges with others is not the best one.
        """
        values = [self.value(outcome, level, rounds).rank for outcome, level in zip(outcomes, levels, strict=True)]
        ends = [math.inf if outcome.failed else self._end(outcome.history) for outcome in outcomes]
        return sum(map(math.isinf, values)), float(np.median(values)), float(np.median(ends))

    def _end(self, history: Mapping[str, np.ndarray]) -> float:
        last = float(history[self.column][-1]) if self.column else 0.0
        return last if math.isfinite(last) else math.inf
