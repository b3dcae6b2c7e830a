"""What fits of all families share: the design, what is checked of it, and coefficients in original units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from consensus import _checks
from consensus.owners.fitted import Fit
from consensus.owners.likelihoods import check_columns
from consensus.owners.sums import Sums, Terms

STEPS = "cost, gradient (p,) and Hessian (p, p) of its rows, in each step of Newton's method"


class Design(NamedTuple):
    """Columns of a model: their places among the features, the reference categories, and the offset's place."""

    places: list[int]
    names: list[str]
    references: list[str]
    offset: int | None


class Found(NamedTuple):
    """What was estimated beside the coefficients: their covariance (p, p), the dispersion, the log-likelihood."""

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
    order = [len(names) - 1, *range(len(names) - 1)] if names[-1] == "intercept" else list(range(len(names)))
    numbers = found.dispersion, found.loglikelihood, rows, sums.owners
    named = tuple(names[place] for place in order)
    return Fit(family, named, b[order], spread[np.ix_(order, order)], kind, *numbers, tuple(notes), sums.revealed())
