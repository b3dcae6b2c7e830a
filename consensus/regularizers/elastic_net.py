"""The sum of L1 and L2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.regularizers.l1 import L1
from consensus.regularizers.points import like, points, soft_threshold, to_prox, total
from consensus.regularizers.separable import Separable

if TYPE_CHECKING:
    import cvxpy


@dataclass(frozen=True)
class ElasticNet(Separable):
    """``r(w) = l1 |w|_1 + l2/2 |w|^2``, the sum of L1 and L2.

    Parameters
    ----------
    l1, l2 : float
        Weights, at least 0.

    References
    ----------
    Zou, Hastie, "Regularization and variable selection via the elastic net", J. R. Statist. Soc. B 67(2), 2005, eq. (3).

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import ElasticNet
    >>> ElasticNet(l1=1.0, l2=1.0).prox(np.array([3.0, -0.2]), step=1.0)
    array([1., 0.])
    """

    l1: float
    l2: float

    def __post_init__(self) -> None:
        for name in ("l1", "l2"):
            object.__setattr__(self, name, _checks.number(f"{name} of ElasticNet", getattr(self, name), least=0))

    @property
    def strong_convexity(self) -> float:
        return self.l2

    def value(self, w: ArrayLike) -> np.ndarray | float:
        w = points("w", w)
        return self.l1 * total(np.abs(w)) + self.l2 / 2 * total(np.square(w))

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        return np.asarray(soft_threshold(v, self.l1 * step) / like(1 + self.l2 * step, v))

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        return np.asarray(L1(self.l1).prox_slope(v, step) / like(1 + self.l2 * step, v))

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        return self.l1 * cp.norm1(w) + self.l2 / 2 * cp.sum_squares(w)
