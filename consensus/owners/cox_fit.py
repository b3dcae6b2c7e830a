"""Fits of Cox models, with a baseline hazard for each owner or one for all on a grid of times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from consensus.owners.cox import partial, shares
from consensus.owners.designs import STEPS, Design, Found, checked, fitted, warn_of_few
from consensus.owners.fitted import Fit
from consensus.owners.likelihoods import covariance, newton, totals
from consensus.owners.sums import Sums, Terms


class Followed(NamedTuple):
    """An owner's rows: columns (rows, p), times, events and offsets (rows,)."""

    X: np.ndarray
    y: np.ndarray
    event: np.ndarray
    offset: np.ndarray

    def outputs(self, b: np.ndarray) -> np.ndarray:
        """Return the logarithms of risks (rows,)."""
        return np.asarray(self.X @ b + self.offset)


def fit_cox(
    sums: Sums, own: list[Followed], design: Design, kind: str, ties: str, grid: np.ndarray | None, scale: np.ndarray
) -> Fit:
    """Return the fit of a Cox model; ``scale`` (p,) are the deviations by which columns were divided."""
    names, p = design.names, len(design.names)
    first = totals(sums, "products", "rows, events, and products of columns (p, p)", own, _first)
    rows, events = int(first["rows"]), int(first["events"])
    if not events:
        raise ValueError("a Cox model needs events; the second column of the target is 0 in all rows of all owners")
    notes = checked(rows, first, [*names, "intercept"], p)
    warn_of_few(own, p, sums)
    if grid is None:

        def terms(one: Followed, b: np.ndarray) -> dict[str, Any]:
            return partial(one.X, one.outputs(b), one.y, one.event, ties)

        b, at = newton(lambda b: totals(sums, "steps", STEPS, own, terms, b), np.zeros(p), names)
        hazards = "each owner is a stratum with a baseline hazard of its own"
    else:
        placed = [one._replace(y=np.searchsorted(grid, one.y)) for one in own]
        b, at = newton(lambda b: _at_grid(sums, placed, b, len(grid), ties), np.zeros(p), names)
        hazards = f"one baseline hazard, times rounded up to a grid of {len(grid)}"
    spread = covariance(at["hessian"], at, "model", 1.0, rows, sums.owners)
    if kind == "owners":

        def scores(one: Followed) -> dict[str, Any]:
            gradient = partial(one.X, one.outputs(b), one.y, one.event, ties)["gradient"]
            return {"scores": np.outer(gradient, gradient)}

        spread = spread @ totals(sums, "inference", "its own score at the optimum", own, scores)["scores"] @ spread
    notes.append(f"{events:,} events, ties by {ties.title()}'s method; {hazards}")
    notes += [f"reference: {', '.join(design.references)}"] if design.references else []
    found = Found(spread, 1.0, -float(at["value"]))
    return fitted("cox", names, b, found, np.diag(1 / scale), np.zeros(p), sums, rows, kind, notes)


def _first(own: Followed) -> dict[str, Any]:
    X = np.c_[own.X, np.ones(len(own.X))]
    return {"rows": len(X), "events": own.event.sum(), "gram": X.T @ X}


def _at_grid(sums: Sums, own: list[Followed], b: np.ndarray, times: int, ties: str) -> Terms:
    """Return cost, gradient and Hessian of the partial likelihood of all rows, whose times are places in the grid."""

    def risks(one: Followed) -> dict[str, Any]:
        f, end = one.outputs(b), np.minimum(one.y, times)
        r, dead = np.exp(f), (one.event > 0) & (one.y < times)
        at_risk, tied = np.zeros((times + 1, 1 + len(b))), np.zeros((times, 1 + len(b)))
        rows = np.c_[np.ones(len(r)), one.X] * r[:, None]
        np.add.at(at_risk, end, rows)
        np.add.at(tied, end[dead], rows[dead])
        return {
            "at risk": np.cumsum(at_risk[::-1], axis=0)[::-1][:times],
            "tied": tied,
            "deaths": np.bincount(end[dead], minlength=times),
            "outputs": f[dead].sum(),
            "columns": one.X[dead].sum(axis=0),
        }

    reveals = "at each time of the grid its events, and sums of risks and of columns (p,) times risks, in each step"
    total = totals(sums, "risk sets", reveals, own, risks)
    deaths = np.rint(total["deaths"]).astype(int)
    group = np.repeat(np.arange(times), deaths)
    share = shares(deaths[deaths > 0], ties)
    left = total["at risk"][group] - share[:, None] * total["tied"][group]
    c, means = left[:, 0], left[:, 1:] / left[:, :1]
    slopes = np.r_[np.cumsum(np.bincount(group, 1 / c, times)), 0.0]
    slopes[-1] = slopes[-2]
    ties_left = np.bincount(group, share / c, times)

    def second(one: Followed) -> dict[str, Any]:
        end = np.minimum(one.y, times)
        factor, dead = slopes[end], (one.event > 0) & (one.y < times)
        factor[dead] -= ties_left[end[dead]]
        rows = one.X * (np.exp(one.outputs(b)) * factor)[:, None]
        return {"hessian": rows.T @ one.X, "gradient": rows.sum(axis=0)}

    at = totals(sums, "steps", STEPS, own, second)
    return {
        "value": np.log(c).sum() - total["outputs"],
        "gradient": at["gradient"] - total["columns"],
        "hessian": at["hessian"] - means.T @ means,
    }
