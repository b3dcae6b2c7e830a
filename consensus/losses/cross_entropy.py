"""The cross-entropy of a softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from consensus import kernels
from consensus.losses.base import Loss, columns_of, scores, shaped, summed

if TYPE_CHECKING:
    import cvxpy
    import jax


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """``l(f, d) = log sum_k exp(f_k) - f_d`` for logits f_k, one per class, and the integer class d in 0, 1, ..., K - 1.

    Targets have shape (..., samples, 1) or (..., samples). Exact at logits of any size, as the largest is subtracted first.
    `error` is 1 for a sample whose class does not have the largest logit, else 0.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import CrossEntropy
    >>> CrossEntropy().value(np.array([[1e4, -1e4], [0.0, 0.0]]), np.array([[0], [1]]))
    array([0.        , 0.69314718])
    """

    separable = False
    curvature_bound = 0.5  # of diag(p) - p p', by Gershgorin: 2 p (1 - p) at most

    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs = scores(outputs)
        shifted = outputs - outputs.max(axis=-1, keepdims=True)
        chosen = summed(np.where(_one_hot(targets, outputs.shape), shifted, 0))
        return np.asarray(np.log(summed(kernels.exp(shifted))) - chosen)

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs = scores(outputs)
        return _slope(outputs, shaped(targets, (*outputs.shape[:-1], 1))[..., 0].astype(outputs.dtype, copy=False))

    def jax_gradient(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        import jax

        return jax.nn.softmax(outputs) - (targets.reshape(-1, 1) == jax.numpy.arange(outputs.shape[-1]))

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        p = _softmax(outputs)
        return _diagonal_less_product(p, p)

    def curvature_root(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        # diag(q) - p q' with q the square root of p: its square is diag(p) - p p'.
        p = _softmax(outputs)
        return _diagonal_less_product(p, np.sqrt(p))

    def expression(self, outputs: cvxpy.Expression, targets: np.ndarray, weights: np.ndarray) -> cvxpy.Expression:
        import cvxpy as cp

        chosen = cp.sum(cp.multiply(_one_hot(targets, outputs.shape).astype(float), outputs), axis=1)
        return weights @ (cp.log_sum_exp(outputs, axis=1) - chosen)

    def error(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs = scores(outputs)
        right = _one_hot(targets, outputs.shape)
        found = np.take_along_axis(right, outputs.argmax(axis=-1)[..., None], axis=-1)[..., 0]
        return np.asarray(1 - found.astype(outputs.dtype))

    def check(self, targets: np.ndarray, outputs: int) -> None:
        if columns_of(targets) != 1:
            raise ValueError(
                f"CrossEntropy takes one integer class per sample, shape (samples,) or (samples, 1); "
                f"got {columns_of(targets)} columns (for one-hot rows pass y.argmax(axis=1))"
            )
        classes = np.unique(targets)
        if outputs < 2 or not np.isin(classes, np.arange(outputs)).all():
            raise ValueError(
                f"CrossEntropy takes integer classes 0 .. K - 1 for a model with K >= 2 outputs; "
                f"got classes {np.array2string(classes, threshold=6)} and {outputs} output(s)"
            )


def _softmax(outputs: np.ndarray) -> np.ndarray:
    outputs = scores(outputs)
    return _slope(outputs, np.full(outputs.shape[:-1], -1, outputs.dtype))  # of no class


def _slope(outputs: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return np.asarray(kernels.softmax_slope(outputs, classes, out=np.empty(outputs.shape, outputs.dtype)))


def _diagonal_less_product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return ``diag(q) - p q'``."""
    result: np.ndarray = -p[..., :, None] * q[..., None, :]
    diagonal = np.einsum("...kk->...k", result)  # a view
    diagonal += q
    return result


def _one_hot(targets: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return, as booleans of a shape (..., samples, outputs), which output is the class: by comparison, without a gather."""
    return np.asarray(shaped(targets, (*shape[:-1], 1)) == np.arange(shape[-1]))
