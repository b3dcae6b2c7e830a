"""Statistics of a study: quartiles, paired differences, profiles and rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from consensus.history import History
from consensus.problems import BaseProblem
from consensus.solvers import NIDS, ExactDiffusion, Solver, bounds
from consensus.studies.measure import Value
from topologies.schedules import ScheduleLike, is_static

INTERVALS = {"median [quartiles]": (0.25, 0.75), "median [range]": (0.0, 1.0)}
_RESAMPLES = 9999
_LONG = 1e12  # numbers from which on all digits are too many
_NEVER = 1e300  # stands for the logarithm of a ratio to or of infinity
_BEGUN, _FLOOR, _FEW = 0.1, 1e-11, 5  # of the start; rows


def quantile(values: Sequence[Value], share: float) -> Value:
    """Return a quantile, by interpolation; missed values are above all others, and so is what they have a part in."""
    ordered = sorted(values, key=lambda value: (value.rank, value.number))
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    part = place - math.floor(place)
    number = low.number if low.number == high.number else (1 - part) * low.number + part * high.number
    return Value(number, low.missed or (high.missed and part > 0))


def cell(values: Sequence[Value], show: str) -> str:
    """Return the text of a table's cell."""
    low, high = (text(quantile(values, share)) for share in INTERVALS[show])
    middle = text(quantile(values, 0.5))
    reached = sum(not value.missed for value in values)
    few = "" if reached == len(values) else f" ({reached} of {len(values)})"
    return f"{middle} [{low}, {high}]{few}"


def text(value: Value) -> str:
    """Return a number in few digits; ``>`` marks the budget of a run that did not get there."""
    number = value.number
    if math.isinf(number):
        return "never"
    shown = f"{number:,.0f}" if 100 <= abs(number) < _LONG else f"{number:.3g}"
    return f">{shown}" if value.missed else shown


def _positive(what: str, values: Sequence[Value]) -> np.ndarray:
    numbers = np.array([value.number for value in values])
    if not (numbers > 0).all():
        raise ValueError(f"ratios of {what!r} mean nothing, as it is not positive in all runs: look at table()")
    return numbers


def paired(what: str, ours: Sequence[Value], theirs: Sequence[Value]) -> dict[str, Any]:
    """Return the median ratio of theirs to ours, its bootstrap interval, and Wilcoxon's p.

    Who misses the level in a pair is never ahead of who does not: a budget may be less than what the other needs.
    """
    pairs = [_fair(*pair) for pair in zip(ours, theirs, strict=True)]
    first, second = (np.log(_positive(what, values)) for values in zip(*pairs, strict=True))
    same = first == second  # both infinite, too
    logs = np.clip(np.subtract(second, first, where=~same, out=np.zeros(len(first))), -_NEVER, _NEVER)
    low = high = p = math.nan
    with np.errstate(over="ignore"):
        middle = float(np.exp(np.median(logs)))
        if len(logs) > 1:
            draws = np.random.default_rng(0).integers(len(logs), size=(_RESAMPLES, len(logs)))
            low, high = np.exp(np.quantile(np.median(logs[draws], axis=1), [0.025, 0.975])).tolist()
            p = float(stats.wilcoxon(logs).pvalue) if np.any(logs) else 1.0
    missed = [f"{sum(value.missed for value in values)} of {len(values)}" for values in (ours, theirs)]
    return {"ratio": middle, "low": low, "high": high, "p": p, "missed": missed[0], "missed by the other": missed[1]}


def _fair(one: Value, other: Value) -> tuple[Value, Value]:
    """Return a pair in which who alone misses the level has at least the other's number."""
    most = max(one.number, other.number)
    return (Value(most, True) if one.missed > other.missed else one), (
        Value(most, True) if other.missed > one.missed else other
    )


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method; NaN stay, and do not count."""
    found, known = np.array(values, float), np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(found[known], kind="stable")]
    found[order] = np.minimum(1, np.maximum.accumulate(found[order] * np.arange(len(order), 0, -1)))
    return [float(p) for p in found]


def ratios(what: str, values: Mapping[str, Sequence[Value]]) -> dict[str, np.ndarray]:
    """Return each solver's ratios to the best one on every problem; infinite where it did not get there."""
    for numbers in values.values():
        _positive(what, numbers)
    ranks = np.array([[value.rank for value in numbers] for numbers in values.values()])
    least = ranks.min(axis=0)
    found = np.where(np.isfinite(ranks), ranks / np.where(np.isfinite(least), least, 1.0), np.inf)
    return dict(zip(values, found, strict=True))


def rate(histories: Sequence[History], column: str) -> dict[str, Any]:
    """Return the median factor a round, its quartiles over seeds, and the least R squared of the fits."""
    found = []
    for history in histories:
        if column not in history:
            raise ValueError(f"column must be one of the history, {', '.join(history)}; got {column!r}")
        values, rounds = history[column].astype(float), history["round"].astype(float)
        if values.ndim > 1:
            raise ValueError(f"column must have one number a row; {column!r} has one for each agent")
        if not len(values):
            continue
        with np.errstate(invalid="ignore"):
            used = np.isfinite(values) & (values < _BEGUN * values[0]) & (values > _FLOOR * values[0])
        if used.sum() >= _FEW and np.ptp(values[used]) > 0:
            fit = stats.linregress(rounds[used], np.log(values[used]))
            found.append((float(np.exp(fit.slope)), float(fit.rvalue) ** 2))
    if not found:
        return {"rate": math.nan, "low": math.nan, "high": math.nan, "straight": math.nan, "fits": 0}
    rates, straight = np.array(found).T
    low, middle, high = np.quantile(rates, [0.25, 0.5, 0.75]).tolist()
    return {"rate": middle, "low": low, "high": high, "straight": float(straight.min()), "fits": len(found)}


def bound(solver: Solver, problem: BaseProblem, network: ScheduleLike) -> float:
    """Return theory's bound on the factor a round of the distance to the optimum; NaN where none is known."""
    known: Callable[..., float] | None = _BOUNDS.get(type(solver))
    if known is None or not is_static(network) or not bounds.is_linear(problem):
        return math.nan
    try:
        return known(solver.prepared(problem, network), problem, network)
    except (TypeError, ValueError):  # costs whose constants nobody knows
        return math.nan


def _primal_dual(solver: Any, problem: BaseProblem, network: ScheduleLike) -> float:  # noqa: ANN401  # NIDS and its kin
    """Return the square root of max(1 - a mu (2 - a L), (1 + lambda_2) / 2), if a < 2 / L."""
    step, largest, least = solver.step_size, bounds.steepest(problem, network), bounds.convexity(problem)
    if not isinstance(step, float) or step * largest >= 2:
        return math.nan
    return math.sqrt(max(1 - step * least * (2 - step * largest), 1 - bounds.slowness(network) / 2))


_BOUNDS: dict[type, Callable[..., float]] = {NIDS: _primal_dual, ExactDiffusion: _primal_dual}
