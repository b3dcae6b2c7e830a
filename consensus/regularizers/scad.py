"""The smoothly clipped absolute deviation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.regularizers.difference import DifferenceOfConvex
from consensus.regularizers.l1 import L1
from consensus.regularizers.points import like, points, soft_threshold, to_prox, total


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
        return np.asarray(np.sign(w) * np.minimum(excess / (self.a - 1), self.weight))

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
