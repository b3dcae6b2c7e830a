"""The cross-entropy of a softmax."""

from dataclasses import dataclass

import numpy as np

from consensus.losses.base import Loss


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """``l(f, d) = log sum_k exp(f_k) - f_d`` for logits f, one a class, and the integer class d in 0, 1, ..., K - 1.

    Targets have shape (..., samples, 1) or (..., samples). Exact at logits of any size: the largest is subtracted first.

    Examples
    --------
    >>> import numpy as np
    >>> CrossEntropy().value(np.array([[1e4, -1e4], [0.0, 0.0]]), np.array([[0], [1]]))
    array([0.        , 0.69314718])
    """

    separable = False

    def value(self, outputs, targets):
        shifted = outputs - outputs.max(axis=-1, keepdims=True)
        chosen = np.where(_is_class(outputs, targets), shifted, 0).sum(axis=-1)
        return np.log(np.exp(shifted).sum(axis=-1)) - chosen

    def gradient(self, outputs, targets):
        return _softmax(outputs) - _is_class(outputs, targets)

    def curvature(self, outputs, targets):
        p = _softmax(outputs)
        curvature = -p[..., :, None] * p[..., None, :]
        diagonal = np.einsum("...kk->...k", curvature)  # a view
        diagonal += p
        return curvature

    def curvature_root(self, outputs, targets):
        """``diag(q) - p q'`` with q the square root of the softmax p: its square is ``diag(p) - p p'``."""
        p = _softmax(outputs)
        q = np.sqrt(p)
        root = -p[..., :, None] * q[..., None, :]
        diagonal = np.einsum("...kk->...k", root)  # a view
        diagonal += q
        return root

    def expression(self, outputs, targets, weights):
        import cvxpy as cp

        chosen = cp.sum(cp.multiply(_is_class(outputs, targets).astype(float), outputs), axis=1)
        return weights @ (cp.log_sum_exp(outputs, axis=1) - chosen)

    def error(self, outputs, targets):
        """One where the largest logit is not the sample's class, else zero, shape (..., samples)."""
        right = np.take_along_axis(_is_class(outputs, targets), outputs.argmax(axis=-1)[..., None], axis=-1)[..., 0]
        return 1 - right.astype(outputs.dtype)

    def check(self, targets, outputs):
        if targets.shape[-1] != 1:
            raise ValueError(
                f"CrossEntropy takes one integer class a sample, shape (samples,) or (samples, 1); "
                f"got {targets.shape[-1]} columns (for one-hot rows pass y.argmax(axis=1))"
            )
        classes = np.unique(targets)
        if outputs < 2 or not np.isin(classes, np.arange(outputs)).all():
            raise ValueError(
                f"CrossEntropy takes integer classes 0 .. K - 1 for a model with K >= 2 outputs; "
                f"got classes {np.array2string(classes, threshold=6)} and {outputs} output(s)"
            )


def _softmax(outputs):
    # Transposed for the maximum: NumPy reduces long rows of samples many times faster than short rows of classes.
    p = outputs - np.ascontiguousarray(outputs.swapaxes(-1, -2)).max(axis=-2)[..., None]
    np.exp(p, out=p)
    p /= p @ np.ones((p.shape[-1], 1), p.dtype)
    return p


def _is_class(outputs, targets):
    """One-hot rows as booleans (..., samples, outputs), by comparison: no gather, no change of dtype."""
    targets = np.asarray(targets)
    if targets.ndim == outputs.ndim - 1:
        targets = targets[..., None]
    if targets.shape != (*outputs.shape[:-1], 1):
        raise ValueError(f"targets must be one class a sample, shape {(*outputs.shape[:-1], 1)}; got {targets.shape}")
    return targets == np.arange(outputs.shape[-1])
