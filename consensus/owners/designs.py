"""Parts that fits of all families share: the design, its checks, and coefficients in original units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.owners.fitted import Fit
from consensus.owners.likelihoods import check_columns
from consensus.owners.sums import Sums, Terms

if TYPE_CHECKING:
    from consensus.owners.owned import Owned

STEPS = "cost, gradient (p,) and Hessian (p, p) of its rows, in each step of Newton's method"


class Design(NamedTuple):
    """Columns of a model: their places among the features, the reference categories, and the offset's place."""

    places: list[int]
    names: list[str]
    references: list[str]
    offset: int | None


class Found(NamedTuple):
    """Estimates beside the coefficients: their covariance (p, p), the dispersion, the log-likelihood."""

    covariance: np.ndarray
    dispersion: float
    loglikelihood: float


def checked(rows: int, first: Terms, names: Sequence[str], constant: int | None) -> list[str]:
    """Check that there are rows enough and no column is superfluous; return, and give, warnings of those that nearly are."""
    if rows <= len(names):
        raise ValueError(f"a fit needs more rows than coefficients; all owners have {rows} rows, and {len(names)} coefficients")
    notes = check_columns(first["gram"], names, constant)
    for note in notes:
        _checks.warn(note)
    return notes


def told_of_weights(rows: int, first: Terms, dispersed: bool) -> list[str]:
    """Return what a reader must know of weights, if some are not one, in a family that is ``dispersed``, or is not."""
    if not first["unequal"]:
        return []
    if dispersed:
        return [
            f"weights are prior weights: standard errors count {rows:,} rows, not their sum {first['weights']:g}; "
            "if they are counts of equal rows, give each row as often as it counts"
        ]
    return [
        f"weights, of sum {first['weights']:g} in {rows:,} rows, are prior weights, which multiply likelihoods: kind='model' "
        "suits counts of equal rows, kind='robust' weights of sampling"
    ]


def warn_of_few(own: Sequence[Any], p: int, sums: Sums) -> None:
    """Warn of owners whose rows others can compute from what is sent."""
    few = [len(one.y) for one in own if len(one.y) <= p]
    if few and sums.secure is None and sums.owners > 1:
        _checks.warn(
            f"an owner here has {min(few)} row{'s' * (min(few) > 1)} and the model {p} coefficients, so that others can "
            "compute its rows from the sums that it adds: secure=True hides them"
        )


def fitted(
    family: str,
    names: Sequence[str],
    b: np.ndarray,
    found: Found,
    A: np.ndarray,
    shift: np.ndarray,
    sums: Sums,
    rows: int,
    kind: str,
    notes: Sequence[str],
) -> Fit:
    """Return the fit in original units: coefficients ``A b + shift``, the intercept first."""
    b, spread = A @ b + shift, A @ found.covariance @ A.T
    order = sorted(range(len(names)), key=lambda place: names[place] != "intercept")
    numbers = found.dispersion, found.loglikelihood, rows, sums.owners
    named = tuple(names[place] for place in order)
    return Fit(family, named, b[order], spread[np.ix_(order, order)], kind, *numbers, tuple(notes), sums.revealed())


def check_owned(owned: object) -> None:
    """Check that something is what :func:`consensus.data.own` returned, with names of columns."""
    wanted = "what consensus.data.own returned, for tables with names of columns"
    _checks.offers("owned", owned, ("shards", "pipeline", "revealed"), wanted)
    if getattr(owned, "pipeline").columns is None:  # noqa: B009  # of an object
        raise TypeError(f"owned must be {wanted}; got one of files of svmlight, whose columns have none")


def original(owned: Owned, place: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the standardised features of the owner at a place, its targets in original units, and its weights."""
    shards, pipeline = owned.shards, owned.pipeline
    rows = shards.weights[place] > 0
    X, t, weights = (np.asarray(part[place][rows], float) for part in (shards.features, shards.targets, shards.weights))
    y = pipeline.shift + pipeline.spread * t
    whole = np.rint(y)
    near = np.abs(y - whole) <= 1e-9 * np.maximum(1, np.abs(y))  # as they were before they were standardised
    return X, np.where(near, whole, y), weights


def followed(owned: Owned, place: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the standardised features of the owner at a place, and its times, events and weights."""
    X, y, weights = original(owned, place)
    owner = f"owner {owned.shards.rows[place]}"
    if y.shape[1] != 2:
        raise ValueError(f"{owner}: survival needs two columns, target=['time', 'event']; got {y.shape[1]}")
    if (y[:, 0] < 0).any() or not np.isin(y[:, 1], (0, 1)).all():
        raise ValueError(f"{owner}: survival needs times of at least 0, and events that are 0 or 1, in this order of target=")
    return X, y[:, 0], y[:, 1], weights


def placed(grid: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Return for each time the place of the next point of a grid, or its own, which standardising may have moved a little."""
    return np.asarray(np.searchsorted(grid + 1e-9 * np.abs(grid), time))


def agreed_grid(grid: ArrayLike) -> np.ndarray:
    """Return the points of a grid."""
    points = _checks.floats("grid", grid)
    if points.ndim != 1 or not len(points) or not np.isfinite(points).all() or (np.diff(points) <= 0).any():
        raise ValueError(f"grid must be finite numbers in increasing order; got {_checks.shown(grid)}")
    return points
