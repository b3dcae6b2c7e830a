"""The log-sum penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.regularizers.difference import DifferenceOfConvex
from consensus.regularizers.l1 import L1
from consensus.regularizers.points import like, points, to_prox, total


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
        return np.asarray((self.weight / self.epsilon) * w / (self.epsilon + np.abs(w)))

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
