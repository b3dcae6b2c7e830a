"""Negative binomial regression whose dispersion alpha is estimated together with the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import gammaln

from consensus.losses import NegativeBinomialLoss
from consensus.owners.designs import STEPS, Found
from consensus.owners.likelihoods import Samples, covariance, newton, small_sample, totals
from consensus.owners.sums import Sums, Terms

MOST = 10_000_000  # count, for each number below which there is a term
_REACH = 30.0  # of the logarithm of alpha, beyond which the likelihood is flat in float64


def fit_alpha(
    sums: Sums, own: Sequence[Samples], b: np.ndarray, kind: str, rows: int, names: Sequence[str]
) -> tuple[np.ndarray, Found]:
    """Return the coefficients with alpha as the last one, and their uncertainty; ``b`` are those of Poisson regression.

    Newton's method is in the logarithm of alpha. The covariance of kind "model" is the inverse of the observed information,
    as coefficients and alpha are correlated in it.

    Raises
    ------
    ValueError
        If counts vary no more than those of a Poisson distribution, so that alpha would be 0.
    """
    first = totals(sums, "dispersion", "sums of squared residuals and expectations of Poisson regression", own, _excess, b)
    if not first["excess"] > 0:
        raise ValueError(
            "counts must vary more than those of a Poisson distribution; these do not, and alpha would be 0: fit "
            "family='poisson', with kind='robust' if they vary less"
        )
    start = np.r_[b, np.log(first["excess"] / first["squares"])]
    found, at = newton(lambda c: _descending(totals(sums, "steps", STEPS, own, _terms, c)), start, [*names, "alpha"])
    reveals = "what its log-likelihood has beside the cost"
    reveals += {"model": "", "robust": ", and the sum of squared scores (p, p)", "owners": ", and its own score"}[kind]
    terms = totals(sums, "inference", reveals, own, _at_optimum, found, kind)
    factor = small_sample(kind, rows, len(found), sums.owners)
    alpha = float(np.exp(found[-1]))
    units = np.r_[np.ones(len(b)), alpha]  # of alpha, by its logarithm
    spread = covariance(at["hessian"], terms, kind, 1.0, factor) * np.outer(units, units)
    return np.r_[found[:-1], alpha], Found(spread, 1.0, float(terms["constants"] - at["value"]))


def _excess(own: Samples, b: np.ndarray) -> dict[str, Any]:
    """Return by how much squared residuals exceed counts, and squared expectations: their ratio is a first alpha."""
    mean = np.exp(own.outputs(b)[:, 0])
    return {
        "excess": own.weights @ (np.square(own.y - mean) - own.y),
        "squares": own.weights @ np.square(mean),
    }


def _parts(own: Samples, c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the values (rows,), slopes (rows, 2) and bends (rows, 3) with respect to the output and the logarithm of alpha.

    Bends are the second derivatives by the output twice, by both, and by the logarithm twice.
    """
    alpha = float(np.exp(np.clip(c[-1], -_REACH, _REACH)))
    loss, f, y = NegativeBinomialLoss(alpha), own.outputs(c[:-1]), own.y
    number = np.arange(int(y.max(initial=0)))
    ratio = number / (1 + alpha * number)
    logarithms, ratios, squares = (
        np.r_[0.0, np.cumsum(term)][y.astype(int)] for term in (np.log1p(alpha * number), ratio, np.square(ratio))
    )  # sums over the numbers below each count
    grown = np.logaddexp(0, f[:, 0] + np.log(alpha))  # log(1 + alpha mu)
    share, slope, bend = -np.expm1(-grown), loss.gradient(f, y[:, None])[:, 0], loss.curvature(f, y[:, None])[:, 0]
    by_alpha = (share - grown) / alpha + y * share - alpha * ratios
    twice = (2 * (grown - share) - np.square(share)) / alpha - y * np.square(share) + alpha**2 * squares + by_alpha
    value = loss.value(f, y[:, None]) - logarithms
    return value, np.stack([slope, by_alpha], axis=1), np.stack([bend, -slope * share, twice], axis=1)


def _terms(own: Samples, c: np.ndarray) -> dict[str, Any]:
    """Return value, gradient and Hessian of an owner's cost."""
    value, slopes, bends = (own.weights @ part if part.ndim == 1 else own.weights[:, None] * part for part in _parts(own, c))
    both, p = own.X.T @ bends[:, 1], len(c)
    hessian = np.empty((p, p))
    hessian[:-1, :-1] = (own.X.T * bends[:, 0]) @ own.X
    hessian[:-1, -1] = hessian[-1, :-1] = both
    hessian[-1, -1] = bends[:, 2].sum()
    return {"value": value, "gradient": np.r_[own.X.T @ slopes[:, 0], slopes[:, 1].sum()], "hessian": hessian}


def _at_optimum(own: Samples, c: np.ndarray, kind: str) -> dict[str, Any]:
    found = {"constants": -own.weights @ gammaln(own.y + 1)}
    if kind != "model":
        slopes = own.weights[:, None] * _parts(own, c)[1]
        scores = np.c_[own.X * slopes[:, :1], slopes[:, 1]]
        scores = scores.sum(axis=0, keepdims=True) if kind == "owners" else scores
        found["scores"] = scores.T @ scores
    return found


def _descending(at: Terms) -> Terms:
    """Return the terms with a Hessian whose Newton step descends: far from the optimum the cost is not convex in alpha."""
    H = at["hessian"]
    try:
        np.linalg.cholesky(H)
    except np.linalg.LinAlgError:
        H = H.copy()
        H[-1, :-1] = H[:-1, -1] = 0
        H[-1, -1] = max(abs(H[-1, -1]), abs(float(at["gradient"][-1])))
    return at | {"hessian": H}
