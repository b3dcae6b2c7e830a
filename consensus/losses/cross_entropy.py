"""The cross-entropy of a softmax."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from consensus import _checks, kernels
from consensus.losses.base import Loss, columns_of, scores

if TYPE_CHECKING:
    import cvxpy


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """``l(f, d) = log sum_k exp(f_k) - f_d`` for logits f, one a class, and the integer class d in 0, 1, ..., K - 1.

    Targets have shape (..., samples, 1) or (..., samples). Exact at logits of any size: the largest is subtracted first.

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
        outputs, right = _is_class(outputs, targets)
        shifted = outputs - outputs.max(axis=-1, keepdims=True)
        chosen = np.where(right, shifted, 0).sum(axis=-1)
        return np.log(kernels.exp(shifted).sum(axis=-1)) - chosen

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        outputs, targets = _with_classes(outputs, targets)
        classes = targets[..., 0].astype(outputs.dtype, copy=False)
        return kernels.softmax_slope(outputs, classes, out=np.empty(outputs.shape, outputs.dtype))

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        p = _softmax(outputs)
        curvature = -p[..., :, None] * p[..., None, :]
        diagonal = np.einsum("...kk->...k", curvature)  # a view
        diagonal += p
        return curvature

    def curvature_root(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """``diag(q) - p q'`` with q the square root of the softmax p: its square is ``diag(p) - p p'``."""
        p = _softmax(outputs)
        q = np.sqrt(p)
        root = -p[..., :, None] * q[..., None, :]
        diagonal = np.einsum("...kk->...k", root)  # a view
        diagonal += q
        return root

    def expression(self, outputs: "cvxpy.Expression", targets: np.ndarray, weights: np.ndarray) -> "cvxpy.Expression":
        import cvxpy as cp

        outputs, right = _is_class(outputs, targets)
        chosen = cp.sum(cp.multiply(right.astype(float), outputs), axis=1)
        return weights @ (cp.log_sum_exp(outputs, axis=1) - chosen)

    def error(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """One where the largest logit is not the sample's class, else zero, shape (..., samples)."""
        outputs, right = _is_class(outputs, targets)
        found = np.take_along_axis(right, outputs.argmax(axis=-1)[..., None], axis=-1)[..., 0]
        return 1 - found.astype(outputs.dtype)

    def check(self, targets: np.ndarray, outputs: int) -> None:
        if columns_of(targets) != 1:
            raise ValueError(
                f"CrossEntropy takes one integer class a sample, shape (samples,) or (samples, 1); "
                f"got {columns_of(targets)} columns (for one-hot rows pass y.argmax(axis=1))"
            )
        classes = np.unique(targets)
        if outputs < 2 or not np.isin(classes, np.arange(outputs)).all():
            raise ValueError(
                f"CrossEntropy takes integer classes 0 .. K - 1 for a model with K >= 2 outputs; "
                f"got classes {np.array2string(classes, threshold=6)} and {outputs} output(s)"
            )


def _softmax(outputs):
    outputs = scores(outputs)
    none = np.full(outputs.shape[:-1], -1, outputs.dtype)
    return kernels.softmax_slope(outputs, none, out=np.empty(outputs.shape, outputs.dtype))


def _with_classes(outputs, targets):
    """``(outputs, targets)``, the targets of shape (..., samples, 1)."""
    outputs, targets = scores(outputs), _checks.array("targets", targets)
    if targets.ndim == outputs.ndim - 1:
        targets = targets[..., None]
    if targets.shape != (*outputs.shape[:-1], 1):
        raise ValueError(f"targets must be one class a sample, shape {(*outputs.shape[:-1], 1)}; got {targets.shape}")
    return outputs, targets


def _is_class(outputs, targets):
    """``(outputs, right)``, right one-hot rows of booleans (..., samples, outputs): by comparison, without a gather."""
    outputs, targets = _with_classes(outputs, targets)
    return outputs, targets == np.arange(outputs.shape[-1])
