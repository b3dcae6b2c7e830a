"""Values of a history's columns."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_LARGEST = np.iinfo(np.int64).max


def check_name(name: str) -> None:
    """Reject a name of a column that spreadsheets would take for the beginning of a formula."""
    if name.startswith(_FORMULA):
        raise ValueError(
            f"names of columns must not begin with {name[0]!r}, at which spreadsheets begin a formula; got "
            f"{_checks.shown(name)}: give it another name"
        )


def check_value(name: str, value: object, first: float | np.ndarray | None) -> None:
    """Reject values that are not numbers or rows of numbers, or whose shape is not that of the column's ``first``."""
    array = np.asarray(value) if isinstance(value, bool | int | float | np.generic | np.ndarray | list | tuple) else None
    if array is None or array.ndim > 1 or array.dtype.kind not in "fiub":
        raise TypeError(f"{name} of a row must be a number or an array (agents,) of them; got {_checks.shown(value)}")
    if first is not None and array.shape != np.shape(first):
        raise ValueError(f"{name} of a row must have the shape of the rows before, {np.shape(first)}; got {array.shape}")


def plain(value: object) -> TypeGuard[int | float]:
    """Whether a value is a Python number that NumPy stores in 64 bits."""
    return type(value) is float or (type(value) is int and -_LARGEST <= value <= _LARGEST)


def fits(value: ArrayLike, dtype: np.dtype) -> bool:
    """Whether NumPy would make a column with this ``value`` of the same ``dtype``."""
    if plain(value):
        return dtype == (np.float64 if type(value) is float else np.int64)
    return np.can_cast(np.asarray(value).dtype, dtype)
