"""Delimited text as the columns of a table."""

import csv
import re

import numpy as np

from consensus import _extras

MISSING = ("", "?", "na", "n/a", "nan", "null")  # compared in lower case; "none" may well be a class


def read(path, words=False):
    """Names (indices without a header) and columns, as pandas has them: numbers, or text with ``None`` where it is missing.

    With ``words`` all columns are text, as it is in the file.
    """
    pandas = _extras.module("pandas", f"reading {path}")
    with path.open("rb") as file:
        if any(b"\0" in line for line in file):  # pandas 2 takes it for the end of a cell
            raise ValueError(f"{path} must be delimited text in UTF-8: it has NUL characters")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter = _delimiter(file)
            lines = _lines(path, file, delimiter)
            first, second = next(lines, []), next(lines, [])
            header = _is_header(first, second)
            if not first or (header and not second):
                return first, []
            settings = {"sep": delimiter, "header": 0 if header else None, "encoding": "utf-8-sig", "skipinitialspace": True}
            settings |= {"na_filter": False, "low_memory": False} | _exact(pandas)
            try:
                frame = pandas.read_csv(path, **settings)
            except pandas.errors.ParserError:
                list(lines)  # where a line is too long, this says which
                raise
            if (frame.iloc[:, -1] == "").any():  # pandas fills lines that are too short
                list(lines)
            if words or frame.dtypes.eq(bool).any():  # "true" in a text is a word
                frame = pandas.read_csv(path, **settings, dtype=object)
    except (UnicodeDecodeError, csv.Error, pandas.errors.ParserError) as error:
        raise ValueError(f"{path} must be delimited text in UTF-8: {error}") from error
    columns = [column if column.dtype.kind in "fiu" else column.map(_cell).astype(object) for _, column in frame.items()]
    return first if header else list(range(len(first))), columns


def _exact(pandas):
    """The option by which pandas reads numbers to the last bit; from 3.1 on it always does, and the option is deprecated."""
    version = tuple(map(int, pandas.__version__.split(".")[:2]))
    return {"float_precision": "round_trip"} if version < (3, 1) else {}


def _delimiter(file):
    """The mark between the cells of the first line; the file is wound back."""
    first = next((line for line in file if line.strip()), "")
    file.seek(0)
    unquoted = re.sub(r'"[^"]*"', "", first)
    return next((mark for mark in ";\t" if mark in unquoted), ",")


def _lines(path, file, delimiter):
    """The cells of every line that is not blank; a line with more or fewer than the first is an error."""
    reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
    width = None
    for cells in reader:
        if len(cells) < 2 and not "".join(cells).strip():
            continue
        if len(cells) != (width := width or len(cells)):
            raise ValueError(
                f"every line of {path} must have as many cells as the first, {width}; line {reader.line_num} has {len(cells)}"
            )
        yield [cell.strip() for cell in cells]


def _is_header(first, second):
    """Whether the first line is one: not all numbers, nor numbers in the very places where the second has them."""
    numbers = [is_number(cell) for cell in first]
    return not all(numbers) and (not any(numbers) or numbers != [is_number(cell) for cell in second])


def is_number(cell):
    """Whether a cell is a number or missing."""
    if cell is None or (isinstance(cell, str) and cell.lower() in MISSING):
        return True
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def values(column):
    """A column of :func:`read` as numbers, with NaN where missing, or as text with ``None`` there."""
    if column.dtype.kind in "fiu":
        return column.to_numpy(float)
    known = [None if cell is None or cell != cell else cell for cell in column]
    try:
        return np.array(known, dtype=float)  # None becomes NaN
    except ValueError:
        return np.array(known, dtype=object)


def _cell(cell):
    cell = str(cell).strip()
    return None if cell.lower() in MISSING else cell
