"""The elastic net with weights for every coordinate."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from consensus.regularizers.base import Regularizer
from consensus.regularizers.points import (
    check_slices,
    digested,
    like,
    soft_threshold,
    to_prox,
    total,
    weighted_points,
    weights_of_each,
)
from consensus.regularizers.separable import Separable

if TYPE_CHECKING:
    import cvxpy


@dataclass(frozen=True)
class WeightedElasticNet(Separable):
    """``r(w) = sum_k l1_k |w_k| + l2_k/2 w_k^2``: coordinates of weight zero, such as biases, are not penalised.

    Parameters
    ----------
    l1, l2 : array_like (P,)
        Weights of the coordinates, at least 0.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, or the two are not of one length.

    References
    ----------
    Zou, "The adaptive lasso and its oracle properties", J. Am. Statist. Assoc. 101(476), 2006, eq. (4), for weights of l1.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.regularizers import WeightedElasticNet
    >>> WeightedElasticNet(l1=[1.0, 1.0, 0.0], l2=[0.0, 1.0, 0.0]).prox(np.array([3.0, 3.0, 3.0]), step=1.0)
    array([2., 1., 3.])
    """

    l1: ArrayLike
    l2: ArrayLike
    smooth: bool = field(init=False, compare=False)
    squares: np.ndarray | None = field(init=False, compare=False)
    _l1: np.ndarray = field(init=False, compare=False)
    _l2: np.ndarray = field(init=False, compare=False)

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)
        for name in ("l1", "l2"):
            weights = weights_of_each(f"{name} of WeightedElasticNet", getattr(self, name))
            put(name, tuple(weights.tolist()))  # arrays can be neither compared nor hashed
            put(f"_{name}", weights)
        if self._l1.shape != self._l2.shape:
            raise ValueError(f"l1 and l2 of WeightedElasticNet must be of one length; got {len(self._l1)} and {len(self._l2)}")
        put("smooth", not self._l1.any())
        put("squares", self._l2 if self.smooth else None)

    def __repr__(self) -> str:
        return f"WeightedElasticNet(l1={digested(self._l1)}, l2={digested(self._l2)})"

    @property
    def strong_convexity(self) -> float:
        return float(self._l2.min())

    @property
    def curvature_bound(self) -> float | None:
        """Lipschitz constant of the gradient, or None if r is not smooth."""
        return float(self._l2.max()) if self.smooth else None

    def value(self, w: ArrayLike) -> np.ndarray | float:
        w = weighted_points("w", w, self._l2, self)
        return total(np.abs(w) * like(self._l1, w) + np.square(w) * like(self._l2 / 2, w))

    def gradient(self, w: ArrayLike) -> np.ndarray:
        w = weighted_points("w", w, self._l2, self)
        if not self.smooth:
            return super().gradient(w)  # which raises
        return np.asarray(like(self._l2, w) * w)

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(weighted_points("v", v, self._l2, self), step)
        return np.asarray(soft_threshold(v, self._l1 * step) / like(1 + self._l2 * step, v))

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        kept = (np.abs(v) > like(self._l1 * step, v)) | (self._l1 == 0)
        return np.asarray(kept / like(1 + self._l2 * step, v))

    def split(self, slices: Sequence[slice]) -> Sequence[Regularizer]:
        check_slices(slices)
        if slices[-1].stop != len(self._l1):
            raise ValueError(f"slices must cover the {len(self._l1)} coordinates of {self}; got {slices}")
        return [WeightedElasticNet(self._l1[part], self._l2[part]) for part in slices]

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        return self._l1 @ cp.abs(w) + self._l2 @ cp.square(w) / 2
