"""Features and targets as arrays."""

from __future__ import annotations

import logging
import math
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._arrays.sparse import canonical

_SMALL = ("uint8", "int8", "uint16", "int16", "float16")  # float32 holds their numbers exactly


def features(name: str, X: Any) -> np.ndarray:  # noqa: ANN401  # of any library
    """Return features as an array of numbers; sparse ones as a CSR array, which stands in for one."""
    if not sp.issparse(X):
        return _checks.array(name, X)
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"{name} must have real numbers and shape (samples, features); got {X.dtype} {X.shape}")
    return cast(np.ndarray, canonical(X))


def arrays(X: ArrayLike, y: ArrayLike, names: tuple[str, str] = ("X", "y")) -> tuple[np.ndarray, np.ndarray]:
    """Return features (samples, ...) and targets (samples, outputs) as :func:`converted` does; a new dtype is logged."""
    X = features(names[0], X)
    found = converted(X, y, names)
    if X.dtype.name in _SMALL:
        logging.getLogger("consensus").info("%s in %s becomes float32, which holds its numbers exactly", names[0], X.dtype)
    return found


def converted(X: Any, y: ArrayLike, names: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:  # noqa: ANN401
    """Return features (samples, ...) and targets (samples, outputs); raise ``ValueError`` if they are not finite or do not fit.

    Features in float32, int32 and int64 keep their dtype; shorter numbers become float32, and all others
    float64. Targets are in float32 if features are, otherwise in float64. Sparse features are a CSR array.
    """
    X, y = features(names[0], X), _checks.array(names[1], y)
    if X.ndim < 2 or math.prod(X.shape) == 0:
        wanted = "(samples, features), or (samples, ...) as images have, at least one of each"
        one = "; numpy.reshape(X, (-1, 1)) has one feature" if X.ndim == 1 else ""
        raise ValueError(f"{names[0]} must have shape {wanted}; got {X.shape}{one}")
    rows = X.shape[0]
    if y.ndim not in (1, 2) or len(y) != rows or y.size == 0:
        flat = f"; flatten the labels of each sample: y.reshape({rows}, -1)" if y.ndim > 2 and len(y) == rows else ""
        raise ValueError(
            f"{names[1]} must have shape ({rows},) or ({rows}, outputs), as {names[0]} has {rows} rows; got {y.shape}{flat}"
        )
    whole = X.dtype in (np.int32, np.int64)
    dtype = np.float32 if X.dtype == np.float32 or X.dtype.name in _SMALL else np.float64
    most = np.finfo(dtype).max
    for name, array in zip(names, (X, y), strict=True):
        with np.errstate(over="ignore"):  # a number too large for float32 is rejected here, instead of becoming inf below
            stored = _stored(array).astype(dtype, copy=False)
            finite = (stored < most**0.5) & (stored > -(most**0.5))
        if not finite.all():
            where = np.argwhere(~finite)[0]
            if sp.issparse(array):
                sparse: Any = array
                where = np.array([np.searchsorted(sparse.indptr, where[0], side="right") - 1, sparse.indices[where[0]]])
            raise ValueError(
                f"{name} must be finite in {np.dtype(dtype)}; {name}[{', '.join(map(str, where))}] is {array[tuple(where)]}"
                + (", whose square is not: take another unit" if abs(array[tuple(where)]) <= most else "")
            )
    return X if whole else X.astype(dtype, copy=False), y.reshape(len(y), -1).astype(dtype, copy=False)


def _stored(array: Any) -> np.ndarray:  # noqa: ANN401  # an array, or a sparse one
    """Return the numbers of an array; of a sparse one those that are stored."""
    return np.asarray(array.data if sp.issparse(array) else array)


def weights_of(sample_weight: ArrayLike, samples: int, dtype: np.dtype, name: str = "sample_weight") -> np.ndarray:
    """Return the weights (samples,) in ``dtype``; raise ``ValueError`` unless they are finite, at least 0 and not all 0."""
    weights = _checks.floats(name, sample_weight)
    if weights.shape != (samples,):
        raise ValueError(f"{name} must have shape ({samples},), a weight for each row of X; got {weights.shape}")
    with np.errstate(over="ignore", under="ignore"):
        found: np.ndarray = weights.astype(dtype, copy=False)
    wrong = ~np.isfinite(found) | (weights < 0) | ((found < np.finfo(dtype).tiny) & (weights > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"{name} must be 0, or above 0 and finite in {dtype}; in row {row} it is {weights[row]}")
    if not found.any():
        raise ValueError(f"{name} must be above zero for some samples; all are zero")
    return found
