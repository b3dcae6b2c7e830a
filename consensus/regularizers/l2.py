"""The squared Euclidean norm."""

from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus.regularizers.base import Separable, like, points, to_prox


@dataclass(frozen=True)
class L2(Separable):
    """``r(w) = weight/2 |w|^2`` (ridge, weight decay); ``weight`` >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> L2(0.5).value(np.array([[3.0, 4.0], [0.0, 2.0]]))
    array([6.25, 1.  ])
    """

    weight: float
    smooth = True
    quadratic = True

    def __post_init__(self):
        object.__setattr__(self, "weight", _checks.number("weight of L2", self.weight, least=0))

    @property
    def strong_convexity(self):
        return self.weight

    def value(self, w):
        w = points("w", w)
        return self.weight / 2 * np.square(w).sum(axis=-1)

    def gradient(self, w):
        return self.weight * points("w", w)

    def prox(self, v, step):
        v, step = to_prox(v, step)
        return v / like(1 + self.weight * step, v)

    def prox_slope(self, v, step):
        """``1 / (1 + weight step)`` everywhere."""
        return np.ones_like(v) / like(1 + self.weight * step, v)

    def expression(self, w):
        import cvxpy as cp

        return self.weight / 2 * cp.sum_squares(w)
