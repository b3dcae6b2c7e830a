"""Cross entropy of classes, and what softmax it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks, kernels
from consensus.losses.arrays import columns_of, scores, shaped, summed
from consensus.losses.base import Loss

if TYPE_CHECKING:
    import cvxpy
    import jax

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


@dataclass(frozen=True, repr=False)
class CrossEntropy(Loss):
    """``l(f, d) = sum_k q_k (log sum_j exp(f_j) - f_k)`` for logits f_k, one per class, and the integer class d in 0 .. K - 1.

    By default ``q_k = 1`` for the class d and 0 for others. With class weights v and label smoothing e, as in PyTorch [1]_,

        q_k = (1 - e) v_d [k = d] + e v_k / K

    and q = 0 if d is the ignored index. Targets have shape (..., samples, 1) or (..., samples). Exact at logits of any size, as
    the largest is subtracted first. `error` is 1 for a sample whose class does not have the largest logit, else 0.

    Parameters
    ----------
    weight : sequence of float, optional
        Weights v of the K classes, at least 0 and not all 0; all 1 if omitted.
    label_smoothing : float
        Part e of every label, from 0 to 1, that is spread evenly over all classes.
    ignore_index : int, optional
        Label of samples that do not count: they have no loss, no gradient and no error. It may be a class or, as -100 is, none.

    Raises
    ------
    ValueError
        If a setting is out of range. A problem rejects targets that are neither classes nor ignored, and weights whose number
        is not that of the model's outputs.

    Notes
    -----
    PyTorch's ``reduction="mean"`` divides by the sum of ``v_d`` over the samples that are not ignored. So does
    ``Problem(..., reduction="mean")``, by the sum over the samples of the whole network: the agents' costs g_i add up to
    ``torch.nn.functional.cross_entropy`` on the pooled data. They are not the agents' own means, whose sum would depend on who
    holds which class. The mean needs the labels of all agents: shards of some agents only take ``reduction="sum"``.

    With T targets per sample, shape (..., samples, T), as those of the tokens of a text, a model has T times K outputs, the
    logits of one token after another; l is the sum over tokens, and `error` the fraction of wrong ones among those that count.

    References
    ----------
    .. [1] ``torch.nn.CrossEntropyLoss`` in the documentation of PyTorch.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import CrossEntropy
    >>> CrossEntropy().value(np.array([[1e4, -1e4], [0.0, 0.0]]), np.array([[0], [1]]))
    array([0.        , 0.69314718])
    >>> rare = CrossEntropy(weight=[1.0, 3.0], ignore_index=-100)
    >>> rare.value(np.zeros((3, 2)), np.array([0, 1, -100]))
    array([0.69314718, 2.07944154, 0.        ])
    """

    weight: Sequence[float] | None = None
    label_smoothing: float = 0.0
    ignore_index: int | None = None

    separable = False
    curvature_bound = 0.5  # of diag(p) - p p', by Gershgorin: 2 p (1 - p) at most

    def __post_init__(self) -> None:
        smoothing = _checks.number("label_smoothing", self.label_smoothing, least=0, most=1)
        object.__setattr__(self, "label_smoothing", smoothing)
        if self.ignore_index is not None:
            if isinstance(self.ignore_index, bool) or not isinstance(self.ignore_index, Integral):
                raise ValueError(f"ignore_index must be a whole number, or None; got {_checks.shown(self.ignore_index)}")
            object.__setattr__(self, "ignore_index", int(self.ignore_index))
        if self.weight is not None:
            weight = _checks.floats("weight of CrossEntropy", self.weight)
            if weight.ndim != 1 or not np.isfinite(weight).all() or not (weight >= 0).all() or not weight.any():
                wanted = "finite numbers >= 0, one for each class and not all 0"
                raise ValueError(f"weight of CrossEntropy must be {wanted}; got {_checks.shown(self.weight)}")
            object.__setattr__(self, "weight", tuple(weight.tolist()))
            # The curvature is the plain one times sum_k q_k, which is (1 - e) v_d + e mean(v).
            largest = (1 - smoothing) * weight.max() + smoothing * weight.mean()
            object.__setattr__(self, "curvature_bound", 0.5 * float(largest))

    def __repr__(self) -> str:
        given = [one.name for one in fields(self) if getattr(self, one.name) != one.default]
        return f"CrossEntropy({', '.join(f'{name}={getattr(self, name)!r}' for name in given)})"

    @property
    def _options(self) -> tuple[Sequence[float] | None, float, int | None]:
        return self.weight, self.label_smoothing, self.ignore_index

    @property
    def _plain(self) -> bool:
        """True if q is one for the class and zero for all others, of every label."""
        return self.weight is None and not self.label_smoothing and self.ignore_index is None

    def _shares(self, logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return q (..., labels, classes)."""
        classes = logits.shape[-1]
        if self.weight is not None and len(self.weight) != classes:
            raise ValueError(f"weight of CrossEntropy must have {classes} numbers for these outputs; got {len(self.weight)}")
        found: np.ndarray = shares(np, labels, classes, logits.dtype, *self._options)
        return found

    def value(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        logits, labels, count = by_label(outputs, targets)
        shifted = logits - logits.max(axis=-1, keepdims=True)
        logarithms = np.log(summed(kernels.exp(shifted)))
        if self._plain:
            chosen = summed(np.where(labels[..., None] == np.arange(logits.shape[-1]), shifted, 0))
            return of_samples(np.asarray(logarithms - chosen), count)
        q = self._shares(logits, labels)
        return of_samples(summed(q) * logarithms - summed(q * shifted), count)

    def gradient(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        logits, labels, _ = by_label(outputs, targets)
        if self._plain:
            found = slope(logits, labels.astype(logits.dtype, copy=False))
        else:
            q, found = self._shares(logits, labels), softmax(logits)
            found *= summed(q)[..., None]
            found -= q
        return found.reshape(np.shape(outputs))

    def jax_gradient(self, outputs: jax.Array, targets: jax.Array) -> jax.Array:
        import jax

        logits = outputs.reshape(targets.size, -1)
        labels, classes = targets.reshape(-1), logits.shape[1]
        if self._plain:
            found = jax.nn.softmax(logits) - (labels[:, None] == jax.numpy.arange(classes))
        else:
            q = shares(jax.numpy, labels, classes, logits.dtype, *self._options)
            found = q.sum(axis=1, keepdims=True) * jax.nn.softmax(logits) - q
        return found.reshape(outputs.shape)

    def curvature(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._bent(outputs, targets, root=False)

    def curvature_root(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._bent(outputs, targets, root=True)

    def _bent(self, outputs: np.ndarray, targets: np.ndarray, root: bool) -> np.ndarray:
        logits, labels, count = by_label(outputs, targets)
        check_order(count, logits.shape[-1])
        p = softmax(logits)
        # diag(q) - p q' with q the square root of p: its square is diag(p) - p p'.
        found = diagonal_less_product(p, np.sqrt(p) if root else p)
        if not self._plain:
            total = summed(self._shares(logits, labels))[..., None, None]
            found *= np.sqrt(total) if root else total
        return blocks_of_samples(found, count)

    def label_weights(self, targets: np.ndarray) -> np.ndarray | float:
        if self.weight is None:
            return self.label_counts(targets)
        labels = _checks.array("targets", targets)
        columns_of(labels)  # which checks them
        counted = self._counted(labels)
        return summed(counted * np.array(self.weight)[np.where(counted, labels, 0).astype(int)])

    def label_counts(self, targets: np.ndarray) -> np.ndarray | float:
        labels = _checks.array("targets", targets)
        columns = columns_of(labels)
        return float(columns) if self.ignore_index is None else summed(self._counted(labels).astype(float))

    def _counted(self, labels: np.ndarray) -> np.ndarray:
        return np.ones(labels.shape, bool) if self.ignore_index is None else np.asarray(labels != self.ignore_index)

    def expression(self, outputs: cvxpy.Expression, targets: np.ndarray, weights: np.ndarray) -> cvxpy.Expression:
        import cvxpy as cp

        logits, labels, count = by_label(np.zeros(outputs.shape), targets)
        q = self._shares(logits, labels)
        scores = outputs if count == 1 else cp.reshape(outputs, logits.shape, order="C")
        losses = cp.multiply(summed(q), cp.log_sum_exp(scores, axis=1)) - cp.sum(cp.multiply(q, scores), axis=1)
        return np.repeat(weights, count) @ losses

    def error(self, outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        logits, labels, count = by_label(outputs, targets)
        counted = self._counted(labels)
        wrong = of_samples(((logits.argmax(axis=-1) != labels) & counted).astype(logits.dtype), count)
        return wrong if count == 1 else np.asarray(wrong / np.maximum(of_samples(counted.astype(logits.dtype), count), 1))

    def check(self, targets: np.ndarray, outputs: int) -> None:
        columns = columns_of(targets)
        classes = outputs // max(1, columns)
        if columns != 1 and (not columns or outputs % columns or classes < 2):
            raise ValueError(
                f"CrossEntropy takes one integer class per sample, shape (samples,) or (samples, 1); "
                f"got {columns} columns (for one-hot rows pass y.argmax(axis=1); T labels per sample need T times K outputs, "
                f"and the model has {outputs})"
            )
        if self.weight is not None and len(self.weight) != classes:
            raise ValueError(f"weight of CrossEntropy must have a number for each of {classes} classes; got {len(self.weight)}")
        labels = _checks.array("targets", targets)
        counted = self._counted(labels)
        found = np.unique(labels[counted])
        if classes < 2 or not np.isin(found, np.arange(classes)).all():
            wrong = np.argwhere(counted & ~np.isin(labels, np.arange(classes)))
            where = f"; the first that is none is {labels[tuple(wrong[0])]:g}, of sample {wrong[0, 0]}" if len(wrong) else ""
            ignored = "" if self.ignore_index is None else f", or ignore_index={self.ignore_index}"
            number = 1 < len(found) == classes  # these numbers are the names of as many classes as there are outputs
            remedy = "; numpy.unique(y, return_inverse=True)[1] numbers them from 0" if number and columns == 1 else ""
            raise ValueError(
                f"CrossEntropy takes integer classes 0 .. K - 1 for a model with K >= 2 outputs{ignored}; "
                f"got classes {np.array2string(found, threshold=6)} and {outputs} output(s){where}{remedy}"
            )
