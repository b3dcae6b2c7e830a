"""Files of delimited text and Parquet as data frames; pandas is imported when a file is read."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from consensus import _checks

if TYPE_CHECKING:
    import pandas

MISSING = ("", "?", "na", "n/a", "nan", "null")  # compared in lower case; "none" may well be a class
_NUMBERS = ("boolean", "integer", "floating", "mixed-integer-float", "decimal", "empty")  # pandas' names of kinds of columns


def _exact() -> dict[str, str]:
    """Return the option for pandas to read numbers to the last bit; from 3.1 on it always does, and rejects the option."""
    import pandas

    version = tuple(map(int, pandas.__version__.split(".")[:2]))
    return {"float_precision": "round_trip"} if version < (3, 1) else {}


def text(path: Path, words: bool = False) -> pandas.DataFrame:
    """Return columns of numbers, or of text without blanks at the ends; missing cells are NaN or empty.

    Columns have the names of the header, or numbers if there is none. With ``words`` all are text, as in the file. Raises
    ``ValueError`` if the file is not text in UTF-8, or a line has more cells than the first.
    """
    import pandas

    with path.open("rb") as file:
        if any(b"\0" in line for line in file):  # to pandas 2 the end of a cell
            raise ValueError(f"{path} must be delimited text in UTF-8: it has NUL characters")
    try:
        with path.open(encoding="utf-8-sig") as file:
            first_line = re.sub(r'"[^"]*"', "", next((line for line in file if line.strip()), ""))
        delimiter = next((mark for mark in ";\t" if mark in first_line), ",")
        settings: dict[str, Any] = {"sep": delimiter, "encoding": "utf-8-sig", "skipinitialspace": True}
        settings |= {"na_filter": False, "low_memory": False} | _exact()
        first, *second = pandas.read_csv(path, **settings, header=None, dtype=str, nrows=2).to_numpy(object).tolist()
        first = [cell.strip() for cell in first]
        header = _is_header(first, second[0] if second else [])
        settings["header"] = 0 if header else None
        frame = pandas.read_csv(path, **settings, dtype=str if words else None)
        if frame.dtypes.eq(bool).any():  # "true" is text
            frame = pandas.read_csv(path, **settings, dtype=str)
    except pandas.errors.EmptyDataError:
        return pandas.DataFrame()
    except (UnicodeDecodeError, pandas.errors.ParserError) as error:
        raise ValueError(f"{path} must be delimited text in UTF-8: {str(error).strip()}") from error
    columns = [column if column.dtype.kind in "fiu" else _stripped(column) for _, column in frame.items()]
    return pandas.concat(columns, axis=1).set_axis(first if header else range(len(first)), axis=1)


def numbers(table: bytes) -> dict[str, list[int | float]]:
    """Return the columns of a table of numbers in CSV, with a header, by name; raise ``ValueError`` with its fault."""
    import pandas

    settings: dict[str, Any] = {"header": None, "keep_default_na": False, "low_memory": False, **_exact()}
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


def _stripped(column: pandas.Series) -> pandas.Series:
    cells = column.astype(str).str.strip()
    return cells.mask(cells.str.lower().isin(MISSING))


def _is_header(first: list[str], second: list[str]) -> bool:
    """Return whether the first line is a header: not all numbers, nor numbers in the same places as the second."""
    numbers = [is_number(cell) for cell in first]
    return not all(numbers) and (not any(numbers) or numbers != [is_number(cell) for cell in second])


def is_number(cell: object) -> bool:
    """Return whether a cell is a number or missing."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
        return True
    try:
        float(cell)  # type: ignore[arg-type]  # which is what is asked
    except (TypeError, ValueError):
        return False
    return True


def parquet(path: Path) -> pandas.DataFrame:
    """Return a Parquet file's columns, without an index; raise ``ValueError`` if it is damaged."""
    import pandas

    try:
        frame = pandas.read_parquet(path, engine="pyarrow")
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: pip install consensus-opt[parquet]") from error
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:  # a damaged file raises any of pyarrow's own kinds, or Python's
        raise ValueError(f"{path} is not a Parquet file: {error}") from error
    return frame.set_axis(list(map(str, frame.columns)), axis=1)


def values(column: pandas.Series, words: bool) -> np.ndarray:
    """Return a column as numbers with NaN, or objects with None, for missing ones; with ``words`` text may be numbers."""
    import pandas

    if column.dtype.kind in "fiub" and not column.hasnans:
        return np.asarray(column.to_numpy(column.dtype.type))
    cells = column.astype(object).where(column.notna(), None)
    try:
        return np.asarray(cells.to_numpy(float if words or pandas.api.types.infer_dtype(cells) in _NUMBERS else object))
    except ValueError:
        return np.asarray(cells.to_numpy(object))
