"""Arrays of the cross-entropy of a softmax, label by label: logits (..., labels, classes) and labels (..., labels)."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks, kernels
from consensus.losses.arrays import scores, shaped

_LARGEST = 4096  # order of a sample's curvature with several labels


def by_label(outputs: ArrayLike, targets: ArrayLike) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the logits (..., labels, classes) and the labels (..., labels) of all samples, and how many labels a sample has.

    A sample has as many labels as targets have columns, neighbours in the result: one if targets lack the last axis.
    """
    outputs, found = scores(outputs), _checks.array("targets", targets)
    count = found.shape[-1] if found.ndim == outputs.ndim else 1
    if count < 1 or outputs.shape[-1] % count or outputs.shape[-1] < 2 * count:
        count = 1  # what is wrong is said by shaped
    labels = shaped(found, (*outputs.shape[:-1], count))
    if count == 1:
        return outputs, labels[..., 0], 1
    *lead, samples, numbers = outputs.shape
    return outputs.reshape(*lead, samples * count, numbers // count), labels.reshape(*lead, samples * count), count


def of_samples(values: np.ndarray, count: int) -> np.ndarray:
    """Return the sums (..., samples) of the ``count`` values of each sample."""
    return values if count == 1 else np.asarray(values.reshape(*values.shape[:-1], -1, count).sum(axis=-1))


def shares(
    xp: ModuleType,
    labels: Any,  # noqa: ANN401  # arrays of xp
    classes: int,
    dtype: Any,  # noqa: ANN401
    weight: Sequence[float] | None,
    smoothing: float,
    ignored: int | None,
) -> Any:  # noqa: ANN401
    """Return q (..., labels, classes): how much of a label each class has, times its weight; by NumPy or JAX, as ``xp``."""
    v = xp.ones(classes, dtype) if weight is None else xp.asarray(weight, dtype)
    q = (labels[..., None] == xp.arange(classes)) * ((1 - smoothing) * v)  # by comparison, without a gather
    if smoothing:
        q = q + smoothing / classes * v
    return q if ignored is None else q * (labels != ignored)[..., None]


def check_order(count: int, classes: int) -> None:
    """Raise ``ValueError`` if the curvature of a sample with so many labels is too large a matrix."""
    if count > 1 and (order := count * classes) > _LARGEST:
        raise ValueError(
            f"the curvature of {count} labels with {classes} classes is a matrix of order {order} for each sample, and at most "
            f"{_LARGEST} is allowed: take a solver that uses gradients only, such as GradientTracking(0.1)"
        )


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of the classes, exactly at logits of any size."""
    return slope(logits, np.full(logits.shape[:-1], -1, logits.dtype))  # of no class


def slope(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the probabilities less one at the class of each label, unless that is -1."""
    return np.asarray(kernels.softmax_slope(logits, labels, out=np.empty(logits.shape, logits.dtype)))


def diagonal_less_product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return ``diag(q) - p q'``."""
    result: np.ndarray = -p[..., :, None] * q[..., None, :]
    diagonal = np.einsum("...kk->...k", result)  # a view
    diagonal += q
    return result


def blocks_of_samples(matrices: np.ndarray, count: int) -> np.ndarray:
    """Return the block-diagonal matrices of samples, each with the matrices (..., labels, classes, classes) of its labels."""
    if count == 1:
        return matrices
    *lead, labels, classes, _ = matrices.shape
    result = np.zeros((*lead, labels // count, count, classes, count, classes), matrices.dtype)
    np.einsum("...ikil->...ikl", result)[...] = matrices.reshape(*lead, -1, count, classes, classes)  # a view
    return result.reshape(*lead, labels // count, count * classes, count * classes)
