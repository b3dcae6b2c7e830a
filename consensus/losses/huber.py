"""The Huber loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from consensus import _checks, kernels
from consensus.losses.arrays import aligned, shaped, summed, weighted
from consensus.losses.base import Loss

if TYPE_CHECKING:
    import cvxpy
    import jax


@dataclass(frozen=True)
class Huber(Loss):
    """``l(f, d) = e^2 / 2`` if ``|e| <= delta``, else ``delta |e| - delta^2 / 2``, summed over the outputs' ``e = f - d``.

    Parameters
    ----------
    delta : float
        Absolute error from which the loss is linear, in units of the target; above 0.

    Notes
    -----
    The loss is not twice differentiable: `curvature` is a generalised second derivative, 1 if ``|e| <= delta``, else 0.

    References
    ----------
    Huber, "Robust estimation of a location parameter", Annals of Mathematical Statistics 35(1), 1964.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import Huber
    >>> Huber(delta=1.0).value(np.array([[0.5], [3.0]]), np.array([[0.0], [0.0]]))
    array([0.125, 2.5  ])
    """

    delta: float = 1.0

    curvature_bound = 1.0
    regression = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", _checks.number("delta", self.delta, above=0))

    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs, targets = aligned(outputs, targets)
        error = outputs - targets
        inner = np.clip(error, -self.delta, self.delta)
        return summed(inner * (error - inner / 2))

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs, targets = aligned(outputs, targets)
        return np.asarray(np.clip(outputs - targets, -self.delta, self.delta))

    def jax_gradient(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        return (outputs - targets).clip(-self.delta, self.delta)

    def fused_sums(self) -> kernels.FusedSums:
        return kernels.FusedSums(kernels.linear_huber, kernels.linear_huber_value, self.delta)

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs, targets = aligned(outputs, targets)
        return np.asarray(np.abs(outputs - targets) <= self.delta, outputs.dtype)

    def expression(self, outputs: cvxpy.Expression, targets: np.ndarray, weights: np.ndarray) -> cvxpy.Expression:
        import cvxpy as cp

        error = outputs - shaped(targets, outputs.shape)
        return weighted(cp.huber(error, self.delta) / 2, weights)  # type: ignore[arg-type,unused-ignore]  # CVXPY says int
