"""The sum of absolute values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.regularizers.points import like, points, soft_threshold, to_prox, total
from consensus.regularizers.separable import Separable

if TYPE_CHECKING:
    import cvxpy


@dataclass(frozen=True)
class L1(Separable):
    """``r(w) = weight |w|_1`` (lasso), which sets small coordinates exactly to zero.

    Parameters
    ----------
    weight : float
        Weight, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import L1
    >>> L1(1.0).prox(np.array([3.0, -0.2, -1.5]), step=0.5)
    array([ 2.5,  0. , -1. ])
    """

    weight: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _checks.number("weight of L1", self.weight, least=0))

    def value(self, w: ArrayLike) -> np.ndarray | float:
        return self.weight * total(np.abs(points("w", w)))

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        return soft_threshold(v, self.weight * step)

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        # Without weight, prox is the identity also at zero.
        return np.asarray((np.abs(v) > like(self.weight * step, v)) | (self.weight == 0), v.dtype)

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        return self.weight * cp.norm1(w)
