"""Fits of Cox models, with a baseline hazard for each owner or one for all on a grid of times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from consensus.owners.cox import Events, Rows, partial, residuals, score_residuals, shares
from consensus.owners.designs import STEPS, Design, Found, checked, fitted, placed, told_of_weights, warn_of_few
from consensus.owners.fitted import Fit
from consensus.owners.likelihoods import covariance, newton, totals
from consensus.owners.sums import Sums, Terms


class Followed(NamedTuple):
    """An owner's rows: columns (rows, p), times, events, weights and offsets (rows,)."""

    X: np.ndarray
    y: np.ndarray
    event: np.ndarray
    weights: np.ndarray
    offset: np.ndarray

    def outputs(self, b: np.ndarray) -> np.ndarray:
        """Return the logarithms of risks (rows,)."""
        return np.asarray(self.X @ b + self.offset)


def fit_cox(
    sums: Sums, own: list[Followed], design: Design, kind: str, ties: str, grid: np.ndarray | None, scale: np.ndarray
) -> Fit:
    """Return the fit of a Cox model; ``scale`` (p,) are the deviations by which columns were divided."""
    names, p = design.names, len(design.names)
    if grid is not None:  # later events are not seen
        own = [one._replace(y=placed(grid, one.y)) for one in own]
        own = [one._replace(event=one.event * (one.y < len(grid))) for one in own]
    first = totals(sums, "products", "rows, events, weights, and products of columns (p, p)", own, _first)
    rows, events = int(first["rows"]), int(first["events"])
    if not events:
        until = "" if grid is None else " until the last time of the grid"
        raise ValueError(f"a Cox model needs events; the second column of the target is 0 in all rows of all owners{until}")
    notes = checked(rows, first, [*names, "intercept"], p)
    warn_of_few(own, p, sums)
    if grid is None:

        def terms(one: Followed, b: np.ndarray) -> dict[str, Any]:
            return partial(one.X, one.outputs(b), one.y, one.event, ties, one.weights)

        b, at = newton(lambda b: totals(sums, "steps", STEPS, own, terms, b), np.zeros(p), names, False)
        hazards = "each owner is a stratum with a baseline hazard of its own"
    else:
        times = len(grid)
        b, at = newton(lambda b: _at_grid(sums, own, b, times, ties), np.zeros(p), names, False)
        hazards = f"one baseline hazard, times rounded up to a grid of {times}"
    if kind != "model":
        if grid is None:
            scores = [score_residuals(one.X, one.outputs(b), one.y, one.event, ties, one.weights) for one in own]
        else:
            risk_sets = _risk_sets(sums, own, b, times, ties)[0]
            scores = [residuals(_rows(one, b, times), risk_sets) for one in own]
        what = "the sum of squared scores (p, p)"
        if kind == "owners":
            what, scores = "its own score", [one.sum(axis=0, keepdims=True) for one in scores]
        at |= sums("inference", f"{what} at the optimum", [{"scores": one.T @ one} for one in scores])
    found = Found(covariance(at["hessian"], at, kind, 1.0, 1.0), 1.0, -float(at["value"]))
    notes.append(f"{events:,} events, ties by {ties.title()}'s method; {hazards}")
    notes += [f"reference: {', '.join(design.references)}"] if design.references else []
    notes += told_of_weights(rows, first, False)
    return fitted("cox", names, b, found, np.diag(1 / scale), np.zeros(p), sums, rows, kind, notes)


def _first(own: Followed) -> dict[str, Any]:
    X, weights = np.c_[own.X, np.ones(len(own.X))], own.weights
    counts = {"rows": len(X), "events": own.event.sum(), "weights": weights.sum(), "unequal": (weights != 1).sum()}
    return counts | {"gram": X.T @ X}


def _rows(own: Followed, b: np.ndarray, times: int) -> Rows:
    """Return an owner's rows, whose times are places in the grid."""
    dead = own.event > 0
    risks = own.weights * np.exp(own.outputs(b))
    return Rows(own.X, risks, own.weights, dead, own.y[dead], np.minimum(own.y + 1, times))


def _risk_sets(sums: Sums, own: list[Followed], b: np.ndarray, times: int, ties: str) -> tuple[Events, Terms]:
    """Return the risk sets of all events, and the totals of the dead."""

    def risks(one: Followed) -> dict[str, Any]:
        rows, f = _rows(one, b, times), one.outputs(b)
        dead, weights = rows.dead, rows.weights[rows.dead]
        at_risk, tied = np.zeros((times + 1, 1 + len(b))), np.zeros((times, 1 + len(b)))
        every = np.c_[np.ones(len(f)), one.X] * rows.risks[:, None]
        np.add.at(at_risk, np.minimum(one.y, times), every)
        np.add.at(tied, rows.group, every[dead])
        return {
            "at risk": np.cumsum(at_risk[::-1], axis=0)[::-1][:times],
            "tied": tied,
            "deaths": np.bincount(rows.group, minlength=times),
            "level": np.bincount(rows.group, weights, minlength=times),
            "outputs": (weights * f[dead]).sum(),
            "columns": (weights[:, None] * one.X[dead]).sum(axis=0),
        }

    reveals = "at each time of the grid its events, and sums of risks and of columns (p,) times risks, in each step"
    total = totals(sums, "risk sets", reveals, own, risks)
    deaths = np.rint(total["deaths"]).astype(int)
    group = np.repeat(np.arange(times), deaths)
    share, level = shares(deaths[deaths > 0], ties), (total["level"] / np.maximum(deaths, 1))[group]
    left = total["at risk"][group] - share[:, None] * total["tied"][group]
    return Events(left[:, 1:] / left[:, :1], left[:, 0], share, level, group, times), total


def _at_grid(sums: Sums, own: list[Followed], b: np.ndarray, times: int, ties: str) -> Terms:
    """Return cost, gradient and Hessian of the partial likelihood of all rows, whose times are places in the grid."""
    events, total = _risk_sets(sums, own, b, times, ties)
    factor = events.level / events.sums
    slopes = np.r_[0.0, np.cumsum(np.bincount(events.group, factor, times))]
    ties_left = np.bincount(events.group, events.share * factor, times)

    def second(one: Followed) -> dict[str, Any]:
        rows = _rows(one, b, times)
        slope = slopes[rows.upto]
        slope[rows.dead] -= ties_left[rows.group]
        parts = one.X * (rows.risks * slope)[:, None]
        return {"hessian": parts.T @ one.X, "gradient": parts.sum(axis=0)}

    at = totals(sums, "steps", STEPS, own, second)
    means = np.sqrt(events.level)[:, None] * events.means
    return {
        "value": (events.level * np.log(events.sums)).sum() - total["outputs"],
        "gradient": at["gradient"] - total["columns"],
        "hessian": at["hessian"] - means.T @ means,
    }
