"""The squared loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from consensus import kernels
from consensus.losses.arrays import aligned, scores, shaped, summed
from consensus.losses.base import Loss

if TYPE_CHECKING:
    import cvxpy
    import jax


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """``l(f, d) = |f - d|^2 / 2``, summed over outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import SquaredLoss
    >>> SquaredLoss().value(np.array([[3.0], [1.0]]), np.array([[1.0], [1.0]]))
    array([2., 0.])
    """

    quadratic = True
    curvature_bound = 1.0
    regression = True

    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs, targets = aligned(outputs, targets)
        return cast(np.ndarray, summed(np.square(outputs - targets)) / 2)

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs, targets = aligned(outputs, targets)
        return cast(np.ndarray, outputs - targets)

    def jax_gradient(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        return outputs - targets

    def fused_sums(self) -> kernels.FusedSums:
        return kernels.FusedSums(kernels.linear_huber, kernels.linear_huber_value)

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.ones_like(scores(outputs))

    def expression(self, outputs: cvxpy.Expression, targets: np.ndarray, weights: np.ndarray) -> cvxpy.Expression:
        import cvxpy as cp

        return cp.sum_squares(cp.multiply(np.sqrt(weights)[:, None], outputs - shaped(targets, outputs.shape))) / 2
