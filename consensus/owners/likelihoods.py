"""Sums over an owner's rows of which likelihoods of linear models consist, and Newton's method on their totals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from consensus.losses import GammaLoss, LogisticLoss, NegativeBinomialLoss, PoissonLoss, SquaredLoss
from consensus.owners.sums import Sums, Terms

ITERATIONS = 60
_DECREMENT = 1e-18  # g'H^-1 g, of a coefficient's standard error about its square root
_RESTS = 1e-10  # below which it may be rounding that it falls no more
_RUNS_AWAY = 20  # Newton steps of the same size, by which a coefficient without a finite optimum is known
_SINGULAR, _NEARLY = 1e-10, 1e-6  # least eigenvalue of the correlations of columns
_LARGE = 0.1  # entry of a vector, relative to the largest one, whose column is named

FAMILIES = {"gaussian": SquaredLoss(), "logistic": LogisticLoss(), "poisson": PoissonLoss(), "gamma": GammaLoss()}


class Samples(NamedTuple):
    """An owner's rows: design matrix (rows, p), targets (rows,), weights (rows,) and offsets (rows,)."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    offset: np.ndarray

    def outputs(self, b: np.ndarray) -> np.ndarray:
        """Return the outputs (rows, 1)."""
        return np.asarray((self.X @ b + self.offset)[:, None])


@dataclass(frozen=True)
class Likelihood:
    """A family of distributions, by its loss, and the sums that its inference needs."""

    loss: Any

    @property
    def name(self) -> str:
        """The family, in words."""
        if isinstance(self.loss, NegativeBinomialLoss):
            return f"negative binomial (alpha {self.loss.alpha:.6g})"
        return next((name for name, loss in FAMILIES.items() if type(loss) is type(self.loss)), repr(self.loss))

    @property
    def known(self) -> bool:
        """True if the loss is a negative log-likelihood."""
        return isinstance(self.loss, (*map(type, FAMILIES.values()), NegativeBinomialLoss))

    @property
    def dispersed(self) -> bool:
        """True if the family has a dispersion to estimate."""
        return isinstance(self.loss, SquaredLoss | GammaLoss)

    def terms(self, own: Samples, b: np.ndarray) -> dict[str, Any]:
        """Return value, gradient and Hessian of an owner's loss."""
        f, d = own.outputs(b), own.y[:, None]
        slope, bend = (own.weights * part(f, d)[:, 0] for part in (self.loss.gradient, self.loss.curvature))
        return {
            "value": own.weights @ self.loss.value(f, d),
            "gradient": own.X.T @ slope,
            "hessian": (own.X.T * bend) @ own.X,
        }

    def at_optimum(self, own: Samples, b: np.ndarray, kind: str) -> dict[str, Any]:
        """Return what the covariance, the dispersion and the likelihood are made of."""
        f, d = own.outputs(b), own.y[:, None]
        expected = getattr(self.loss, "information", self.loss.curvature)
        slope = own.weights * self.loss.gradient(f, d)[:, 0]
        found = {"information": (own.X.T * (own.weights * expected(f, d)[:, 0])) @ own.X}
        if kind != "model":
            scores = own.X.T * slope
            found["scores"] = np.outer(scores.sum(axis=1), scores.sum(axis=1)) if kind == "owners" else scores @ scores.T
        if self.dispersed:
            found["squares"] = own.weights @ np.square(self.loss.gradient(f, d)[:, 0])
        if isinstance(self.loss, SquaredLoss):
            found["logarithms"] = np.log(own.weights).sum()
        elif self.known and not isinstance(self.loss, GammaLoss):
            found["constants"] = own.weights @ self._constants(own.y)
        return found

    def _constants(self, y: np.ndarray) -> np.ndarray:
        """Return what the log-likelihood of each row has beside the loss."""
        if isinstance(self.loss, LogisticLoss):
            return np.zeros(len(y))
        if isinstance(self.loss, PoissonLoss):
            return np.asarray(-gammaln(y + 1))
        alpha = self.loss.alpha
        return np.asarray(y * np.log(alpha) + gammaln(y + 1 / alpha) - gammaln(1 / alpha) - gammaln(y + 1))

    def gamma_terms(self, own: Samples, b: np.ndarray, dispersion: float) -> dict[str, Any]:
        """Return an owner's log-likelihood of the gamma distribution, which needs the dispersion."""
        f, shape = own.outputs(b)[:, 0], own.weights / dispersion
        ratio = np.log(shape * own.y) - f
        return {"loglikelihood": (shape * ratio - np.exp(ratio) - gammaln(shape) - np.log(own.y)).sum()}


Evaluate = Callable[[np.ndarray], Terms]


def newton(evaluate: Evaluate, start: np.ndarray, names: Sequence[str], inferred: bool = True) -> tuple[np.ndarray, Terms]:
    """Return the coefficients that minimise a convex function, and its terms there, by damped Newton steps.

    Every owner computes the same steps from the same totals. ``inferred`` says whether ``owners.inference`` takes the loss.

    Raises
    ------
    ValueError
        If there is no finite optimum, as with separation: the columns whose coefficients grow are named.
    """
    b, found = start, evaluate(start)
    steps: list[float] = []
    before = np.inf
    for _ in range(ITERATIONS):
        with np.errstate(all="ignore"):
            try:
                step = np.linalg.solve(found["hessian"], found["gradient"])
            except np.linalg.LinAlgError:
                step = np.full(len(b), np.nan)
        if not np.isfinite(step).all():
            break
        decrement = float(found["gradient"] @ step)
        if abs(decrement) < _DECREMENT or (abs(decrement) < _RESTS and decrement > before / 4 and len(steps) < _RUNS_AWAY):
            return b, found
        steps.append(float(np.linalg.norm(step)))
        if len(steps) >= _RUNS_AWAY and steps[-1] > 0.8 * steps[-_RUNS_AWAY // 4]:
            break
        before, value = decrement, float(found["value"])
        for halving in range(40):
            tried = evaluate(b - 0.5**halving * step)
            if float(tried["value"]) <= value + 1e-10 * abs(value):
                break
        b, found = b - 0.5**halving * step, tried
    large = np.abs(step) > _LARGE * np.nanmax(np.abs(step)) if np.isfinite(step).all() else np.ones(len(b), bool)
    shown = ", ".join(repr(name) for name, wide in zip(names, large, strict=True) if wide)
    shrunk = ", or train with consensus.L2 and pass the result to consensus.owners.inference" if inferred else ""
    raise ValueError(
        f"no finite coefficients are the optimum: those of {shown} grow without bound, as where a column or category separates "
        f"the outcomes, or has no events. Leave these columns out (drop=), merge the category with another{shrunk}"
    )


def check_columns(gram: np.ndarray, names: Sequence[str], constant: int | None) -> list[str]:
    """Return warnings of columns that nearly determine each other, by sums of products (p, p); raise if they do.

    ``constant`` is the place of the intercept, whose column is all ones.
    """
    others = [place for place in range(len(names)) if place != constant]
    if not others:
        return []
    centred = gram[np.ix_(others, others)]
    if constant is not None:
        sums = gram[others, constant]
        centred = centred - np.outer(sums, sums) / gram[constant, constant]
    deviation, own = np.diag(centred), [names[place] for place in others]
    constants = deviation <= 1e-12 * np.maximum(1e-300, np.diag(gram)[others].max())
    if constants.any():
        shown = ", ".join(repr(name) for name, wide in zip(own, constants, strict=True) if wide)
        raise ValueError(
            f"a coefficient needs a column with different values; constant in all rows that count: {shown}: drop= it"
        )
    correlations = centred / np.sqrt(np.outer(deviation, deviation))
    values, vectors = np.linalg.eigh(correlations)
    if values[0] > _NEARLY:
        return []
    largest = np.abs(vectors[:, 0])
    shown = ", ".join(repr(name) for name, wide in zip(own, largest > _LARGE * largest.max(), strict=True) if wide)
    if values[0] <= _SINGULAR:
        raise ValueError(
            f"columns must not determine each other, or coefficients have no one value; these do: {shown}: drop= one"
        )
    return [f"columns nearly determine each other: {shown}; their standard errors are large, and digits are lost"]


def small_sample(kind: str, rows: int, p: int, owners: int) -> float:
    """Return the factor of a sandwich for few rows or clusters, that of HC1 and its like."""
    return rows / (rows - p) if kind == "robust" else owners / (owners - 1) * (rows - 1) / (rows - p)


def covariance(bread: np.ndarray, terms: Terms, kind: str, dispersion: float, factor: float) -> np.ndarray:
    """Return the covariance of coefficients, by the Hessian or information ``bread`` (p, p); ``factor`` is of a sandwich."""
    scale = 1 / np.sqrt(np.diag(bread))
    inverse = np.linalg.inv(bread * np.outer(scale, scale)) * np.outer(scale, scale)
    return np.asarray(dispersion * inverse if kind == "model" else factor * inverse @ terms["scores"] @ inverse)


def totals(sums: Sums, name: str, reveals: str, own: Sequence[Any], terms: Callable[..., dict[str, Any]], *rest: Any) -> Terms:  # noqa: ANN401
    """Return the sums over owners of ``terms(own, *rest)``."""
    return sums(name, reveals, [terms(one, *rest) for one in own])
