"""Values of a history's columns."""

from __future__ import annotations

from io import BytesIO
from typing import Any, TypeGuard

import numpy as np

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
    """Return whether a value is a Python number that NumPy stores in 64 bits."""
    return type(value) is float or (type(value) is int and -_LARGEST <= value <= _LARGEST)


def numbers(table: bytes) -> dict[str, list[int | float]]:
    """Return the columns of a table of numbers in CSV, with a header, by name; raise ``ValueError`` with its fault."""
    import pandas

    settings: dict[str, Any] = {"header": None, "keep_default_na": False, "low_memory": False, **exact()}
    try:
        names = pandas.read_csv(BytesIO(table), nrows=1, dtype=str, **settings).iloc[0].tolist()
        frame = pandas.read_csv(BytesIO(table), skiprows=1, na_values="nan", **settings)  # whose width is not the header's
    except pandas.errors.EmptyDataError:
        raise ValueError("it has no rows") from None
    if len(set(names)) < len(names):
        raise ValueError(f"names in its header come twice: {names}")
    if len(frame.columns) != len(names):
        raise ValueError(f"its lines have {len(frame.columns)} cells, the header {len(names)}")
    frame.columns = names
    for name, column in frame.items():
        if column.dtype.kind not in "fiub":
            found = pandas.to_numeric(column.astype(str), errors="coerce")
            row = int(((found.isna() & column.notna()) | (found.abs() > 2**63)).argmax())
            raise ValueError(f"line {row + 2} has no number of 64 bits in column {name!r}, but {_checks.shown(column[row])}")
    columns: dict[str, list[int | float]] = frame.to_dict("list")
    return columns


def exact() -> dict[str, str]:
    """Return the option for pandas to read numbers to the last bit; from 3.1 on it always does, and rejects the option."""
    import pandas

    version = tuple(map(int, pandas.__version__.split(".")[:2]))
    return {"float_precision": "round_trip"} if version < (3, 1) else {}
