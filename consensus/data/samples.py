"""Features and targets as arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks


def arrays(X: ArrayLike, y: ArrayLike, names: tuple[str, str] = ("X", "y")) -> tuple[np.ndarray, np.ndarray]:
    """Features (samples, ...) and targets (samples, outputs), checked, in the dtype of the features."""
    X, y = _checks.array(names[0], X), _checks.array(names[1], y)
    if X.ndim < 2 or X.size == 0:
        wanted = "(samples, features), or (samples, ...) as images have,"
        raise ValueError(f"{names[0]} must have shape {wanted} at least one of each; got {X.shape}")
    if y.ndim not in (1, 2) or len(y) != len(X) or y.size == 0:
        raise ValueError(
            f"{names[1]} must have shape ({len(X)},) or ({len(X)}, outputs), as {names[0]} has {len(X)} rows; got {y.shape}"
        )
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    for name, array in zip(names, (X, y), strict=True):
        with np.errstate(over="ignore"):  # a number too large for float32 is refused here, not turned into inf below
            finite = np.isfinite(array.astype(dtype, copy=False))
        if not finite.all():
            where = np.argwhere(~finite)[0]
            raise ValueError(
                f"{name} must be finite in {np.dtype(dtype)}; {name}[{', '.join(map(str, where))}] is {array[tuple(where)]}"
            )
    return X.astype(dtype, copy=False), y.reshape(len(y), -1).astype(dtype, copy=False)
