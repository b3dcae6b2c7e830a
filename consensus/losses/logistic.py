"""The logistic loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from consensus import kernels
from consensus.losses.arrays import aligned, scores, shaped, summed, weighted
from consensus.losses.base import Loss

if TYPE_CHECKING:
    import cvxpy
    import jax


@dataclass(frozen=True)
class LogisticLoss(Loss):
    """``l(f, d) = log(1 + exp(f)) - d f`` for logits f and targets d in {0, 1}, summed over outputs.

    Each output is a label of its own, 1 if its logit is positive; `error` is the fraction of a sample's labels that are wrong.
    Exact at logits of any size.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import LogisticLoss
    >>> LogisticLoss().gradient(np.array([[0.0], [-1e4]]), np.array([[1.0], [0.0]]))
    array([[-0.5],
           [ 0. ]])
    """

    curvature_bound = 0.25

    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs, targets = aligned(outputs, targets)
        return summed(kernels.logistic_value(outputs, targets))

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs, targets = aligned(outputs, targets)
        return np.asarray(kernels.logistic_slope(outputs, targets))

    def jax_gradient(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        import jax

        return jax.nn.sigmoid(outputs) - targets

    def fused_sums(self) -> kernels.FusedSums:
        return kernels.FusedSums(kernels.linear_logistic, kernels.linear_logistic_value)

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.asarray(kernels.logistic_curvature(scores(outputs)))

    def expression(self, outputs: cvxpy.Expression, targets: np.ndarray, weights: np.ndarray) -> cvxpy.Expression:
        import cvxpy as cp

        return weighted(cp.logistic(outputs) - cp.multiply(shaped(targets, outputs.shape), outputs), weights)

    def error(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs, targets = aligned(outputs, targets)
        return np.asarray(((outputs > 0) != (targets > 0)).mean(axis=-1, dtype=outputs.dtype))

    def check(self, targets: np.ndarray, outputs: int) -> None:
        super().check(targets, outputs)
        labels = np.unique(targets)
        if not np.isin(labels, (0, 1)).all():
            remedy = "for targets in {-1, 1} pass (y + 1) / 2; for several classes use CrossEntropy"
            if len(labels) == 2 and set(labels.tolist()) != {-1, 1}:
                remedy = (
                    "for two classes pass numpy.unique(y, return_inverse=True)[1], to split with classification=True, or load "
                    "the file with classification=True"
                )
            raise ValueError(f"LogisticLoss takes targets in {{0, 1}}; got {np.array2string(labels, threshold=6)} ({remedy})")
