"""Losses of counts and of positive targets whose expectation is the exponential of the output."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.special import expit

from consensus import _checks
from consensus.losses.arrays import columns_of, scores, shaped, summed, weighted
from consensus.losses.base import Loss

if TYPE_CHECKING:
    import cvxpy


class LogLink(Loss):
    """A negative log-likelihood of targets d with the expectation ``mu = exp(f)``, or ``exp(f + o)`` with offsets o.

    With ``offset`` the second half of a target's columns are the offsets of its outputs.
    """

    offset: bool
    regression = True
    _allowed = "numbers of at least 0, such as counts,"

    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        f, d = self._parts(outputs, targets)
        with np.errstate(over="ignore"):
            return summed(self._value(f, d))

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        f, d = self._parts(outputs, targets)
        with np.errstate(over="ignore"):
            return self._gradient(f, d)

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        f, d = self._parts(outputs, targets)
        with np.errstate(over="ignore"):
            return self._curvature(f, d)

    def information(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return the expected curvature, Fisher's information, of each sample's outputs.

        Parameters
        ----------
        outputs, targets : ndarray
            As in `value`.

        Returns
        -------
        ndarray (..., samples, outputs)
            The expectation of `curvature` over targets of this distribution.
        """
        f, _ = self._parts(outputs, targets)
        with np.errstate(over="ignore"):
            return self._information(f)

    def expression(self, outputs: cvxpy.Expression, targets: np.ndarray, weights: np.ndarray) -> cvxpy.Expression:
        count = outputs.shape[1]
        d = shaped(targets, (outputs.shape[0], count * (1 + self.offset)))
        return weighted(self._expression(outputs + d[:, count:] if self.offset else outputs, d[:, :count]), weights)

    def error(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        f, d = self._parts(outputs, targets)
        with np.errstate(over="ignore"):
            return summed(np.square(np.exp(f) - d))

    def check(self, targets: np.ndarray, outputs: int) -> None:
        wanted, found = outputs * (1 + self.offset), columns_of(targets)
        if found != wanted:
            each = "a target and then an offset" if self.offset else "a target"
            raise ValueError(f"{self} needs {each} for each of the model's {outputs} outputs; got targets with {found} columns")
        d = np.asarray(targets)[..., :outputs]
        good = self._good(d)
        if not good.all():
            row = int(np.argmin(good.all(axis=-1)))
            raise ValueError(
                f"{self} takes {self._allowed} as targets, not standardised ones; got {d[row].tolist()} in row {row}"
            )

    def _good(self, d: np.ndarray) -> np.ndarray:
        """Return which targets suit the loss."""
        return np.asarray(d >= 0)

    def _parts(self, outputs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithms of expectations, and the targets."""
        f = scores(outputs)
        count = f.shape[-1]
        d = shaped(targets, (*f.shape[:-1], count * (1 + self.offset))).astype(f.dtype, copy=False)
        return (f + d[..., count:], d[..., :count]) if self.offset else (f, d)

    @abstractmethod
    def _value(self, f: np.ndarray, d: np.ndarray) -> np.ndarray: ...
    @abstractmethod
    def _gradient(self, f: np.ndarray, d: np.ndarray) -> np.ndarray: ...
    @abstractmethod
    def _curvature(self, f: np.ndarray, d: np.ndarray) -> np.ndarray: ...
    @abstractmethod
    def _information(self, f: np.ndarray) -> np.ndarray: ...
    @abstractmethod
    def _expression(self, f: cvxpy.Expression, d: np.ndarray) -> cvxpy.Expression: ...


@dataclass(frozen=True)
class PoissonLoss(LogLink):
    """``l(f, d) = exp(f) - d f`` for counts d, summed over outputs: Poisson regression with the logarithm as link.

    Targets may be any numbers of at least 0, such as rates, of which it is a quasi-likelihood.

    Parameters
    ----------
    offset : bool
        Whether targets have, after the counts, as many columns of offsets, which are added to the outputs: logarithms of
        exposures, such as times of observation.

    Notes
    -----
    The curvature exp(f) has no bound, so that no step size is chosen from it. `error` is ``(exp(f) - d)^2``.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.losses import PoissonLoss
    >>> PoissonLoss().gradient(np.array([[0.0]]), np.array([[3.0]]))
    array([[-2.]])
    >>> PoissonLoss(offset=True).gradient(np.array([[0.0]]), np.array([[3.0, np.log(2.0)]]))
    array([[-1.]])
    """

    offset: bool = False

    def __post_init__(self) -> None:
        _checks.flag("offset", self.offset)

    def _value(self, f: np.ndarray, d: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, np.exp(f) - d * f)

    def _gradient(self, f: np.ndarray, d: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, np.exp(f) - d)

    def _curvature(self, f: np.ndarray, d: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, np.exp(f))

    def _information(self, f: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, np.exp(f))

    def _expression(self, f: cvxpy.Expression, d: np.ndarray) -> cvxpy.Expression:
        import cvxpy as cp

        return cp.exp(f) - cp.multiply(d, f)


@dataclass(frozen=True)
class GammaLoss(LogLink):
    """``l(f, d) = f + d exp(-f)`` for targets d > 0, summed over outputs: gamma regression with the logarithm as link.

    Parameters
    ----------
    offset : bool
        As in :class:`PoissonLoss`.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.losses import GammaLoss
    >>> GammaLoss().gradient(np.array([[0.0]]), np.array([[3.0]]))
    array([[-2.]])
    """

    offset: bool = False
    _allowed = "numbers above 0"

    def __post_init__(self) -> None:
        _checks.flag("offset", self.offset)

    def _good(self, d: np.ndarray) -> np.ndarray:
        return np.asarray(d > 0)

    def _ratio(self, f: np.ndarray, d: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):  # a target of zero pads shards: its ratio is zero at any output
            return cast(np.ndarray, np.exp(np.log(d) - f))

    def _value(self, f: np.ndarray, d: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, f + self._ratio(f, d))

    def _gradient(self, f: np.ndarray, d: np.ndarray) -> np.ndarray:
        return 1 - self._ratio(f, d)

    def _curvature(self, f: np.ndarray, d: np.ndarray) -> np.ndarray:
        return self._ratio(f, d)

    def _information(self, f: np.ndarray) -> np.ndarray:
        return np.ones_like(f)

    def _expression(self, f: cvxpy.Expression, d: np.ndarray) -> cvxpy.Expression:
        import cvxpy as cp

        return f + cp.multiply(d, cp.exp(-f))


@dataclass(frozen=True)
class NegativeBinomialLoss(LogLink):
    """``l(f, d) = (d + 1/alpha) log(1 + alpha exp(f)) - d f`` for counts d, summed over outputs.

    It is that of negative binomial regression with the logarithm as link, of variance ``mu + alpha mu^2``.

    Parameters
    ----------
    alpha : float
        Dispersion, above 0; near 0 it is Poisson regression.
    offset : bool
        As in :class:`PoissonLoss`.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.losses import NegativeBinomialLoss
    >>> NegativeBinomialLoss(alpha=1.0).gradient(np.array([[0.0]]), np.array([[3.0]]))
    array([[-1.]])
    """

    alpha: float
    offset: bool = False
    _allowed = "counts 0, 1, 2, ..."

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", _checks.number("alpha", self.alpha, above=0))
        _checks.flag("offset", self.offset)

    def _good(self, d: np.ndarray) -> np.ndarray:
        return np.asarray((d >= 0) & (d == np.rint(d)))

    def _value(self, f: np.ndarray, d: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, (d + 1 / self.alpha) * np.logaddexp(0, f + np.log(self.alpha)).astype(f.dtype) - d * f)

    def _gradient(self, f: np.ndarray, d: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, (d + 1 / self.alpha) * self._share(f) - d)

    def _curvature(self, f: np.ndarray, d: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, (d + 1 / self.alpha) * self._share(f) * expit(-f - f.dtype.type(np.log(self.alpha))))

    def _information(self, f: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, self._share(f) / self.alpha)

    def _share(self, f: np.ndarray) -> np.ndarray:
        """Return ``alpha mu / (1 + alpha mu)``."""
        return cast(np.ndarray, expit(f + f.dtype.type(np.log(self.alpha))))

    def _expression(self, f: cvxpy.Expression, d: np.ndarray) -> cvxpy.Expression:
        import cvxpy as cp

        return cp.multiply(d + 1 / self.alpha, cp.logistic(f + np.log(self.alpha))) - cp.multiply(d, f)
