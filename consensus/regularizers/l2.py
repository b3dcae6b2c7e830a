"""The squared Euclidean norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.regularizers.points import like, points, to_prox, total
from consensus.regularizers.separable import Separable

if TYPE_CHECKING:
    import cvxpy


@dataclass(frozen=True)
class L2(Separable):
    """``r(w) = weight/2 |w|^2`` (ridge, weight decay).

    Parameters
    ----------
    weight : float
        Weight, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import L2
    >>> L2(0.5).value(np.array([[3.0, 4.0], [0.0, 2.0]]))
    array([6.25, 1.  ])
    """

    weight: float
    smooth = True
    quadratic = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _checks.number("weight of L2", self.weight, least=0))

    @property
    def strong_convexity(self) -> float:
        return self.weight

    @property
    def curvature_bound(self) -> float:
        """Lipschitz constant of the gradient."""
        return self.weight

    def value(self, w: ArrayLike) -> np.ndarray | float:
        return self.weight / 2 * total(np.square(points("w", w)))

    def gradient(self, w: ArrayLike) -> np.ndarray:
        return self.weight * points("w", w)

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        shrunk = 1 + self.weight * step
        return v / (shrunk if type(shrunk) is float else like(shrunk, v))  # a Python float keeps the dtype of v

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        return np.asarray(np.ones_like(v) / like(1 + self.weight * step, v))

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        return self.weight / 2 * cp.sum_squares(w)
