"""Measures of a study: a cost to reach a level, a column after a budget, or a function of a result."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import consensus
from consensus import _checks
from consensus.history import History
from consensus.studies.grid import named

_FORMS = '"exchanges to objective 1%", "objective after 1000 exchanges", or a function of a result'
_FALLING = ("objective", "stationarity", "disagreement", "test_error", "test_error_worst")  # no costs
_TO = re.compile(r"(?P<cost>\w+) to (?P<column>\w+) (?P<level>[^\s%]+)(?P<percent>%?)")
_AFTER = re.compile(r"(?P<column>\w+) after (?P<level>\S+) (?P<cost>\w+)")


class Outcome(NamedTuple):
    """The part of a run that a study keeps in memory (the file has all of it), its seed, and what its case limits it to."""

    history: History
    rounds: int
    reason: str
    failed: bool
    path: Path
    seed: int = 0
    limits: Mapping[str, float] = MappingProxyType({})


class Value(NamedTuple):
    """A measure of a run; ``missed`` if the run did not get there: then the number is the budget it had."""

    number: float
    missed: bool = False

    @property
    def rank(self) -> float:
        """The number, or infinity for a run that did not get there."""
        return math.inf if self.missed or math.isnan(self.number) else self.number


class Merit(NamedTuple):
    """Of a setting: how many runs do not get there, the median over seeds, how low the column got, minus the rounds done."""

    missed: int
    median: float
    end: float
    lasted: float

    @property
    def lost(self) -> bool:
        """True if most runs have no number."""
        return math.isinf(self.median) and math.isinf(self.end)


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
        if found["cost"] in _FALLING:
            raise ValueError(f"measure must count what never falls, such as exchanges, bytes or seconds; got {measure!r}")
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
        first = float(columns[0][0])
        if lowest - first > 1e-9 * max(1.0, abs(first)):
            raise ValueError(f"reference returns {lowest:g}, above the {self.column} at the start, {first:g}: there is no gap")
        return lowest + self.level * (first - lowest) if lowest < first else math.nan  # nobody got below the start

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
                number = float(found)
            except (TypeError, ValueError):
                raise TypeError(f"measure {self.text} must return a number; got {_checks.shown(found)}") from None
            return Value(number) if math.isfinite(number) else Value(math.inf, True)
        history = outcome.history
        if not history.rows:
            return Value(math.inf, True)
        cost, column = history[self.cost].astype(float), history[self.column].astype(float)
        if self.after:
            within = max(0, int(np.searchsorted(cost, self.level, side="right")) - 1)
            short = cost[-1] < self.level and outcome.failed
            return Value(math.inf, True) if short or not np.isfinite(column[within]) else Value(float(column[within]))
        above = np.flatnonzero(~(column <= level))
        reached = above[-1] + 1 if len(above) else 0  # the first row from which on it stays there
        if not outcome.failed and reached < history.rows:
            return Value(float(cost[reached]))
        return Value(self.budget(outcome, rounds), True)

    def budget(self, outcome: Outcome, rounds: int) -> float:
        """Return what all rounds, or those within the limits, cost at the rate of a run; infinite if it spent nothing."""
        history = outcome.history
        done = float(history["round"][-1]) if history.rows and "round" in history else float(outcome.rounds)
        if not history.rows or not done:
            return math.inf
        spent = {name: float(history[name][-1]) for name in outcome.limits if name in history}
        times = [rounds / done, *(outcome.limits[name] / value for name, value in spent.items() if value > 0)]
        return float(history[self.cost][-1]) * max(1.0, min(times))

    def short(self, outcome: Outcome, rounds: int) -> bool:
        """Return whether all rounds, or those within the limits, cost less than the measure wants to be spent."""
        history, all_done = outcome.history, outcome.rounds >= rounds or bool(outcome.limits)
        return self.after and all_done and not outcome.failed and float(history[self.cost][-1]) < self.level

    def merit(self, outcomes: Sequence[Outcome], levels: Sequence[float], rounds: int) -> Merit:
        """Return how good a setting is; less is better, in the order of the fields.

        A setting that is fast with most seeds and diverges with others is not the best one.
        """
        values = [self.value(outcome, level, rounds).rank for outcome, level in zip(outcomes, levels, strict=True)]
        ends = values if self.function else [math.inf if one.failed else self._end(one.history) for one in outcomes]
        lasted = [outcome.rounds if outcome.failed else rounds for outcome in outcomes]
        return Merit(sum(map(math.isinf, values)), float(np.median(values)), float(np.median(ends)), -float(np.median(lasted)))

    def _end(self, history: Mapping[str, np.ndarray]) -> float:
        last = float(history[self.column][-1])
        return last if math.isfinite(last) else math.inf
