"""Nonconvex regularizers: differences of a convex and a smooth function."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.regularizers.base import Regularizer
from consensus.regularizers.norms import L1, Separable
from consensus.regularizers.points import like, points, soft_threshold, to_prox, total

if TYPE_CHECKING:
    import cvxpy


class DifferenceOfConvex(Separable):
    """A nonconvex r = convex - smooth: a convex regularizer less a convex function with a Lipschitz gradient.

    Linearising the smooth function at a point gives a convex r~ that lies above r and touches it there. The Lipschitz constant
    of ``smooth_gradient`` is ``-strong_convexity``.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> r, w = consensus.LogSum(1.0, epsilon=0.5), np.array([3.0, -0.2])
    >>> r.is_convex, r.convex
    (False, L1(weight=2.0))
    >>> bool(np.isclose(r.value(w), r.convex.value(w) - r.smooth_value(w)))
    True
    """

    is_convex = False

    @property
    @abstractmethod
    def convex(self) -> Regularizer:
        """The convex part, a regularizer."""

    @abstractmethod
    def smooth_value(self, w: np.ndarray) -> np.ndarray | float:
        """Return the smooth part of each row.

        Parameters
        ----------
        w : ndarray (agents, P), or (P,)
            The points.

        Returns
        -------
        ndarray (agents,), or float for one point
            The values.
        """

    @abstractmethod
    def smooth_gradient(self, w: np.ndarray) -> np.ndarray:
        """Return the gradient of the smooth part at each row.

        Parameters
        ----------
        w : ndarray (agents, P), or (P,)
            The points.

        Returns
        -------
        ndarray, the shape of w
            The gradients.
        """

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:  # CVXPY has convex functions only
        raise TypeError(f"{self} is not convex and has no CVXPY expression; its convex part, .convex = {self.convex}, has one")


@dataclass(frozen=True)
class LogSum(DifferenceOfConvex):
    """``r(w) = weight sum_p log(1 + |w_p| / epsilon)``: nonconvex, an approximation of the number of nonzeros.

    It is the difference of the convex ``weight/epsilon |w|_1`` and the smooth convex
    ``weight sum_p (|w_p|/epsilon - log(1 + |w_p|/epsilon))``, whose gradient has the Lipschitz constant weight/epsilon^2.

    Parameters
    ----------
    weight : float
        Weight, at least 0.
    epsilon : float
        Scale, above 0, in units of w: coordinates well below it are penalised like ``weight/epsilon |w_p|``.

    Notes
    -----
    With ``a = |v|`` and c = weight step, prox is zero or the larger root of ``(w - a) (epsilon + w) + c = 0``,

        w = (a - epsilon + sqrt((a + epsilon)^2 - 4 c)) / 2 ,

    whichever has the smaller ``c log(1 + w/epsilon) + (w - a)^2 / 2``: the global minimiser for any step. For
    c > epsilon^2 prox jumps from zero to that root; of the two, the root is taken where they are equally good.

    References
    ----------
    Prater-Bennette, Shen, Tripp, "The proximity operator of the log-sum penalty", J. Sci. Comput. 93, 2022, eq. (1);
    Candes, Wakin, Boyd, "Enhancing sparsity by reweighted l1 minimization", J. Fourier Anal. Appl. 14, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import LogSum
    >>> LogSum(2.0, epsilon=1.0).prox(np.array([3.0, -2.0, 1.5]), step=1.0)
    array([ 2.41421356, -1.        ,  0.        ])
    """

    weight: float
    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _checks.number("weight of LogSum", self.weight, least=0))
        object.__setattr__(self, "epsilon", _checks.number("epsilon of LogSum", self.epsilon, above=0))

    @property
    def strong_convexity(self) -> float:
        return -self.weight / self.epsilon**2

    @property
    def convex(self) -> L1:
        return L1(self.weight / self.epsilon)

    def value(self, w: ArrayLike) -> np.ndarray | float:
        return self.weight * total(np.log1p(np.abs(points("w", w)) / self.epsilon))

    def smooth_value(self, w: np.ndarray) -> np.ndarray | float:
        ratio = np.abs(points("w", w)) / self.epsilon
        return self.weight * total(ratio - np.log1p(ratio))

    def smooth_gradient(self, w: np.ndarray) -> np.ndarray:
        w = points("w", w)
        return cast(np.ndarray, (self.weight / self.epsilon) * w / (self.epsilon + np.abs(w)))

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        w, zero = self._minimiser(np.abs(v), self.weight * step)
        return np.where(zero, 0, np.copysign(w, v))

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        # 1 / (1 - weight step / (epsilon + |prox|)^2) where prox is not zero.
        w, zero = self._minimiser(np.abs(v), self.weight * step)
        inverse = np.where(zero, 1, 1 - like(self.weight * step, v) / np.square(self.epsilon + w))
        return np.where(zero, self.weight == 0, 1 / inverse)

    def _minimiser(self, a: np.ndarray, c: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the root for a = |v| and c = weight step, and whether zero is better."""
        shifted, width, c = a + self.epsilon, like(2 * np.sqrt(c), a), like(c, a)
        root = (a - self.epsilon + np.sqrt(np.maximum(shifted - width, 0) * (shifted + width))) / 2
        # One step of the stationarity condition removes the rounding of epsilon from roots far below epsilon.
        w = np.maximum(a - c / (self.epsilon + root), 0)
        worse = 2 * c * np.log1p(w / self.epsilon) > w * (a + c / (self.epsilon + w))
        return w, (w == 0) | worse


@dataclass(frozen=True)
class SCAD(DifferenceOfConvex):
    """The smoothly clipped absolute deviation ``r(w) = sum_p s(|w_p|)``.

    Here s(0) = 0, and the slope is

        s'(t) = weight min(1, max(a weight - t, 0) / ((a - 1) weight)) .

    So s is proportional to t up to ``weight`` and constant from ``a weight`` on: large coordinates are not shrunk.

    It is the difference of the convex ``weight |w|_1`` and a smooth convex function whose gradient,
    ``sign(w) min(max(|w| - weight, 0) / (a - 1), weight)``, has the Lipschitz constant 1/(a - 1).

    Parameters
    ----------
    weight : float
        Slope at zero and, in units of w, the point at which the slope begins to fall; at least 0.
    a : float
        Multiple of ``weight`` from which r is constant; above 2.

    Notes
    -----
    For a step < a - 1, prox is the only minimiser: soft-thresholding by ``weight step`` up to ``|v| = (1 + step) weight``,
    ``|v| - step (a weight - |v|) / (a - 1 - step)`` up to a weight, and v beyond. Longer steps raise ``ValueError``.

    References
    ----------
    Fan, Li, "Variable selection via nonconcave penalized likelihood and its oracle properties", J. Am. Statist. Assoc.
    96, 2001, eqs. (2.7), (2.8).

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import SCAD
    >>> SCAD(1.0, a=3.0).prox(np.array([0.5, 1.5, -2.5, 4.0]), step=1.0)
    array([ 0. ,  0.5, -2. ,  4. ])
    """

    weight: float
    a: float = 3.7

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _checks.number("weight of SCAD", self.weight, least=0))
        object.__setattr__(self, "a", _checks.number("a of SCAD", self.a, above=2))

    @property
    def strong_convexity(self) -> float:
        return -1 / (self.a - 1)

    @property
    def convex(self) -> L1:
        return L1(self.weight)

    def value(self, w: ArrayLike) -> np.ndarray | float:
        size = np.minimum(np.abs(points("w", w)), self.a * self.weight)
        excess = np.maximum(size - self.weight, 0)
        return total(self.weight * size - np.square(excess) / (2 * (self.a - 1)))

    def smooth_value(self, w: np.ndarray) -> np.ndarray | float:
        excess = np.maximum(np.abs(points("w", w)) - self.weight, 0)
        inner = np.minimum(excess, (self.a - 1) * self.weight)
        return total(inner * (excess - inner / 2)) / (self.a - 1)

    def smooth_gradient(self, w: np.ndarray) -> np.ndarray:
        w = points("w", w)
        excess = np.maximum(np.abs(w) - self.weight, 0)
        return cast(np.ndarray, np.sign(w) * np.minimum(excess / (self.a - 1), self.weight))

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        size, bend = np.abs(v), self._bend(v, step)
        middle = np.copysign(size - like(step / (self.a - 1 - step), v) * (self.a * self.weight - size), v)
        return np.where(size <= bend, soft_threshold(v, self.weight * step), np.where(size < self.a * self.weight, middle, v))

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        # The slope of the soft threshold; (a - 1) / (a - 1 - step) where that of r falls; one beyond.
        size, bend = np.abs(v), self._bend(v, step)
        steep = like((self.a - 1) / (self.a - 1 - step), v)
        beyond = np.where(size < self.a * self.weight, steep, 1)
        return np.where(size <= bend, self.convex.prox_slope(v, step), beyond)

    def _bend(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        """Return the |v| at which soft-thresholding ends."""
        if not np.all(step < self.a - 1):
            raise ValueError(f"step of {self} must be < a - 1 = {self.a - 1}, or prox is not one point; got {step!r}")
        return like((1 + step) * self.weight, v)
