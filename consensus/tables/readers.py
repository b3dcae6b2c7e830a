"""Files of delimited text, Parquet and Feather as data frames; pandas, which reads them, is imported when a file is read."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import logging
import lzma
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np

from consensus import _checks
from consensus._columns import exact
from consensus.tables import looks
from consensus.tables.frames import Reading, check_samples

if TYPE_CHECKING:
    import pandas

TEXT = (".csv", ".tsv", ".txt", ".data")
TABLES = (*TEXT, ".parquet", ".feather")
COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_OTHERS = {  # by their first bytes
    b"\x1f\x8b": "and is compressed: its name must end in .gz",
    b"PAR1": "and is a Parquet file: its name must end in .parquet",
    b"PK\x03\x04": "and is a zip archive, as Excel's files are: give load the data frame that pandas.read_excel returns",
}
_HEAD = 1000  # lines by which the form of a file is decided
_ROWS = 1 << 20  # characters of these at most
_SEPARATORS = (";", "\t", "|", ",")
_RARE = ("~", "^")  # taken only where nothing else stands between cells
_PAIR = re.compile(r"(\d+):\S+")  # of a number of a feature and its value, as libsvm writes them
LOOKS = "consensus"  # the attribute of a frame that says what numbers in its columns look like
_CHANCE = 0.01  # that a first row which differs from the others is a sample like them


class ReadingOptions(TypedDict, total=False):
    """The fields of :class:`Reading` as keywords."""

    sep: str | None
    decimal: str
    thousands: str | None
    encoding: str | None
    comment: str | None
    header: bool | Sequence[str] | None
    index: bool | str | int | None
    na_values: Sequence[str | float]


class _Form(NamedTuple):
    """The form of a file of text."""

    encoding: str
    skip: int  # lines before the first
    sep: str
    header: bool
    names: list[str | int]  # of columns
    guess: str | None  # why it is doubtful whether there is a header
    looks: dict[int, str]  # by place what numbers look like


def kind_of(path: Path) -> str:
    """Return the suffix by which a file is read, without that of its compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def opened(path: Path, reading: Reading, texts: Collection[str | int] = ()) -> tuple[pandas.DataFrame, Reading]:
    """Return the columns in a file of text, Parquet or Feather, without an index, and how another file like it is read.

    Columns of text that are in ``texts``, by name or place, are text as in the file; others are numbers or booleans if all
    their cells are. Missing cells are missing. Columns have the names of the header, or numbers if there is none. Raises
    ``ValueError`` that names the file, and the line or what to pass instead, if it is damaged or no table.
    """
    if kind_of(path) in TEXT:
        form = _form(path, reading)
        frame, reading = _text(path, reading, form, texts), replace(reading, header=reading.header or form.header)
    else:
        frame = _binary(path)
    if not len(frame):
        raise ValueError(f"{path} has no rows")
    return frame, reading


def _text(path: Path, reading: Reading, form: _Form, texts: Collection[str | int]) -> pandas.DataFrame:
    import pandas

    names, places = form.names, list(range(len(form.names)))
    index = _index_of(path, names, reading.index)
    kept = [place for place in places if place != index]
    if len(kept) > 1 and not names[kept[-1]] and form.header:  # every line may end with a separator
        kept.pop()
    marked = {place for at, place in enumerate(kept) if names[place] in texts or at in texts or at - len(kept) in texts}
    missing = [str(value) for value in reading.na_values]
    missing += [f"{value:.1f}" for value in reading.na_values if isinstance(value, float | int) and value == int(value)]
    settings: dict[str, Any] = {"sep": form.sep, "encoding": form.encoding, "skipinitialspace": True, "skiprows": form.skip}
    settings |= {"decimal": reading.decimal, "thousands": reading.thousands, "comment": reading.comment, "low_memory": False}
    settings |= {"keep_default_na": False, "na_values": [*looks.MISSING_SPELLINGS, *missing]} | exact()
    if len(form.sep) > 1 and form.sep != r"\s+":  # a regular expression
        del settings["low_memory"], settings["float_precision" if "float_precision" in settings else "thousands"]
        settings["engine"] = "python"
    try:
        frame = pandas.read_csv(
            path, header=0 if form.header else None, names=places, index_col=False, dtype=dict.fromkeys(marked, str), **settings
        )
    except pandas.errors.EmptyDataError:
        return pandas.DataFrame()
    except UnicodeDecodeError as error:
        raise _not_text(path, form.encoding, error) from error
    except (pandas.errors.ParserError, ValueError, EOFError, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise ValueError(f"{path} must be delimited text: {_ragged(str(error).strip(), form)}") from error
    if len(frame) and frame[places[-1]].isna().any():
        _check_lengths(path, reading, form)
    for place in places:
        if frame[place].dtype.kind not in "fiub":
            frame.isetitem(place, _cells(frame[place], reading, missing, place in marked))
    if not names[-1] and frame[places[-1]].isna().all():  # every line ends with a separator
        frame, names = frame.iloc[:, :-1], names[:-1]
    frame = frame.set_axis(pandas.Index(names, dtype=object), axis=1)
    frame.attrs[LOOKS] = {names[place]: look.format(names[place]) for place, look in form.looks.items() if place < len(names)}
    if form.guess is not None:
        _checks.warn(f"{path}: {form.guess}")
    if index is None:
        return frame
    if reading.index is None and not frame.iloc[:, index].is_unique:
        _checks.warn(
            f"{path}: the first column has no name, and is taken for the index of a data frame although its values repeat: "
            "index=False makes it a feature"
        )
    table = frame.iloc[:, [other for other in range(len(names)) if other != index]]
    check_samples(path, frame.iloc[:, index], table.columns)
    return table


def _cells(column: pandas.Series, reading: Reading, missing: Sequence[str], as_text: bool) -> pandas.Series:
    """Return a column that is no numbers to pandas: numbers or booleans, if its cells are some, or text without blanks."""
    cells: dict[object, Any] = {cell: str(cell).strip() for cell in column.dropna().unique()}
    gone = [cell for cell, text in cells.items() if text.lower() in looks.MISSING or text in missing]
    cells |= dict.fromkeys(gone, np.nan)
    texts = [text for text in cells.values() if isinstance(text, str)]
    number = looks.number_in(reading.decimal, reading.thousands)
    if not as_text and texts and all(number(text) is not None for text in texts):
        return column.map({cell: number(text) if isinstance(text, str) else text for cell, text in cells.items()}).astype(float)
    if not as_text and texts and set(texts) <= looks.BOOLEANS.keys():
        cells = {cell: looks.BOOLEANS.get(text, text) for cell, text in cells.items()}
    return column.astype(object).map(cells).astype(object)


def _index_of(path: Path, names: Sequence[str | int], index: bool | str | int | None) -> int | None:
    """Return the place of the index column; None if there is none."""
    if index is None:
        if str(names[0]) and not re.fullmatch(r"Unnamed: 0(\.\d+)?", str(names[0])):
            return None
        logging.getLogger("consensus").info("%s: the first column, which has no name, is the index and no feature", path)
        return 0
    if isinstance(index, bool):
        return 0 if index else None
    return position_of(path, "index", names, index)


def position_of(where: object, argument: str, names: Sequence[str | int], column: object) -> int:
    """Return the place of a ``column``, given by name or place in ``argument``."""
    count = len(names)
    if isinstance(column, str) and list(names).count(column) == 1:
        return list(names).index(column)
    if isinstance(column, int | np.integer) and not isinstance(column, bool) and -count <= column < count:
        return int(column) % count
    repeated = isinstance(column, str) and column in names
    shown = ", ".join(map(repr, names[:20])) + (f", ... ({count} in all)" if count > 20 else "")
    raise ValueError(
        f"{argument} must be a column of {where}, one of {shown}, or an index from {-count} to {count - 1}; got {column!r}"
        + (", a name that several columns have" if repeated else "")
    )


def _form(path: Path, reading: Reading) -> _Form:
    """Return the form of a file, by its first lines."""
    encoding, head = _head(path, reading.encoding)
    skip = 0
    if found := re.match(r"\s*sep=(.)\r?\n", head):  # of Excel
        head, skip = head[found.end() :], 1
    lines = head.splitlines(keepends=True)
    if reading.comment:
        lines = [
            line.partition(reading.comment)[0].rstrip("\r\n") + "\n" for line in lines if not line.startswith(reading.comment)
        ]
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise ValueError(f"{path} has no rows")
    if reading.sep is None and _is_svmlight(lines):
        raise ValueError(
            f"{path} has lines such as {_checks.shown(lines[1].strip())}, a target and features by number, as libsvm writes "
            "them: such a file is read as a sparse array if its name ends with .svmlight; sep=' ' reads cells of text"
        )
    sep = reading.sep or (found.group(1) if found else None) or _separator(lines)
    records = _records(lines, sep)
    if reading.header is None and (again := _repeated(records, reading)):
        shown = ", ".join(records[0][:6])
        raise ValueError(
            f"{path} has its first line, {shown}, again as row {again}, as files have that were joined: header=True, "
            f"na_values={records[0]}, missing='drop' leaves that out"
        )
    usual = max((len(record) for record in records[1:]), default=len(records[0]))
    first, others = records[0], records[1:]
    short = len(first) == usual - 1 and any(record[-1:] != [""] for record in others if len(record) == usual)
    mark = lines[0][0] if lines[0].startswith(tuple("#%;!/")) else ""
    if len(first) < usual and others and (len(first) != usual - 1 or (mark and len(first) == 1)):
        raise ValueError(
            f"{path} must have lines of one length; its first line has {len(first)} cells, {_checks.shown(lines[0].strip())}, "
            f"and others {usual}: "
            + (
                f"comment={mark!r} leaves it out"
                if mark
                else "remove it, or give load a data frame that pandas.read_csv(..., skiprows=1) returns"
            )
        )
    if isinstance(reading.header, tuple):
        if len(reading.header) != usual:
            raise ValueError(f"header must have a name for each of the {usual} columns of {path}; got {list(reading.header)}")
        return _Form(encoding, skip, sep, tuple(first) == reading.header, list(reading.header), None, {})
    if len(first) == usual - 1:  # R's write.table leaves the index without a name; or all other lines end with a separator
        first = ["", *first] if short else [*first, ""]
        header, guess = True, None
    elif reading.header is None:
        header, guess = is_header(first, others, reading)
    else:
        header, guess = bool(reading.header), None
    names: list[str | int] = list(first) if header else list(range(len(first)))
    columns = zip(*(record for record in (others if header else records) if len(record) == len(names)), strict=True)
    plain = reading.decimal == "." and reading.thousands is None
    seen = {place: look for place, column in enumerate(columns) if plain and (look := looks.written(column, sep))}
    return _Form(encoding, skip, sep, header, names, guess, seen)


def _head(path: Path, encoding: str | None) -> tuple[str, str]:
    """Return the encoding of a file and its first lines; raise ``ValueError`` if it is no text."""
    try:
        with COMPRESSED.get(path.suffix.lower(), Path.open)(path, "rb") as file:
            start = file.read(4)
            if encoding is None:
                wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                encoding = "utf-16" if wide else "utf-8-sig"
            file.seek(0)
            if not codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")) and any(
                b"\0" in part for part in _parts(file)
            ):
                kind = next(
                    (kind for mark, kind in _OTHERS.items() if start.startswith(mark)),
                    "as UTF-16 has: encoding='utf-16-le' reads that",
                )
                raise ValueError(
                    f"{path} must be delimited text in UTF-8: it has NUL characters, {kind}"
                )  # to pandas 2 the end of a cell
            file.seek(0)
            lines, size = [], 0
            text = io.TextIOWrapper(file, encoding=encoding, newline="")
            for line in text:
                lines.append(line)
                size += len(line)
                if len(lines) > _HEAD or size > _ROWS:
                    break
            text.detach()
    except UnicodeDecodeError as error:
        raise _not_text(path, str(encoding), error) from error
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise ValueError(f"{path} is not compressed as its name says, or is damaged: {error}") from error
    return encoding, "".join(lines)


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    while part := file.read(_ROWS):
        yield part


def _not_text(path: Path, encoding: str, error: UnicodeDecodeError) -> ValueError:
    before, after = error.object[: error.start][-12:], error.object[error.start :][:12]
    known = (before.splitlines() or [b""])[-1] + after.splitlines()[0]
    other = "cp1252" if 0x80 <= error.object[error.start] < 0xA0 else "latin-1"  # where that has but control characters
    cell = known.decode(other, "replace")
    name = "UTF-8" if encoding == "utf-8-sig" else encoding
    return ValueError(
        f"{path} must be text in {name}; it has the byte {error.object[error.start]:#x}: give encoding=, such as "
        f"encoding={other!r}, which reads {cell!r} there"
    )


def _separator(lines: list[str]) -> str:
    """Return what stands between the cells: what cuts all lines into as many parts, and more than one."""
    found = []
    for sep in _SEPARATORS:
        widths = [len(record) for record in _records(lines, sep)]
        usual = max(set(widths), key=widths.count)
        if usual > 1 and (widths[1:].count(usual) >= 0.9 * (len(widths) - 1)):
            found.append((widths.count(usual) == len(widths), sep))
    if found:
        return max(found, key=lambda one: one[0])[1]
    counts = [len(record) for record in _records(lines, r"\s+")]
    if counts[-1] > 1 and set(counts[1:]) <= {counts[-1]} and counts[0] in (counts[-1], counts[-1] - 1):  # as R writes
        return r"\s+"
    for sep in _RARE:
        if len(lines) > 1 and sep in lines[0] and len({line.count(sep) for line in lines[:_HEAD]}) == 1:
            return sep
    return next((sep for sep in _SEPARATORS if any(sep in line for line in lines[:2])), ",")


def _is_svmlight(lines: list[str]) -> bool:
    """Return whether lines have a target and features by number, such as 1:0.5 3:2, and no times of day."""
    rows = [line.partition("#")[0].split() for line in lines[:_HEAD]]
    pairs = [[found for cell in row[1:] if (found := _PAIR.fullmatch(cell))] for row in rows]
    numbers = [[int(found[1]) for found in row] for row in pairs]
    return (
        len(rows) > 1
        and any(numbers)
        and all(len(row) == len(found) + 1 for row, found in zip(rows, numbers, strict=True))
        and all(first < second for row in numbers for first, second in pairwise(row))
        and not all(re.fullmatch(r"\d\d?:\d\d(:\d\d)?", found[0]) for row in pairs for found in row)
    )


def _repeated(records: list[list[str]], reading: Reading) -> int | None:
    """Return the row that has the names of the first line again, over columns that else are numbers; None if there is none."""
    first, others = records[0], records[1:]
    number = looks.number_in(reading.decimal, reading.thousands)
    if first not in others:
        return None
    columns = zip(*(row for row in others if len(row) == len(first) and row != first), strict=True)
    alone = any(number(cell) is None and _all_numbers(column, number) for cell, column in zip(first, columns, strict=False))
    return others.index(first) + 1 if alone else None


def _records(lines: list[str], sep: str) -> list[list[str]]:
    if sep == r"\s+":
        return [next(csv.reader([" ".join(line.split())], delimiter=" "), []) for line in lines]
    if len(sep) > 1:
        return [re.split(sep, line.strip()) for line in lines]
    try:
        records = list(csv.reader(lines, delimiter=sep, skipinitialspace=True))
    except csv.Error:  # a cell of more than 128 kB
        records = [line.split(sep) for line in lines]
    if len(records) > 1 and len(lines) > _HEAD:
        records.pop()  # it may be a part of a record
    return [[cell.strip() for cell in record] for record in records if any(map(str.strip, record))] or [[""]]


def is_header(first: list[str], others: list[list[str]], reading: Reading) -> tuple[bool, str | None]:
    """Return whether the first line is a header, by comparing it with the others; and a warning if that is a guess."""
    number = looks.number_in(reading.decimal, reading.thousands)
    rows = [row for row in others if len(row) == len(first)]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(first)
    otherwise = [looks.look(column) for column in columns]  # such as numbers with decimal commas
    below = [_all_numbers(column, number) or found is not None for column, found in zip(columns, otherwise, strict=True)]
    cells = {place: cell for place, cell in enumerate(first) if cell.lower() not in looks.MISSING}
    text = {
        place: cell
        for place, cell in cells.items()
        if number(cell) is None and (otherwise[place] is None or looks.look([cell]) != otherwise[place])
    }
    named = [cell for place, cell in cells.items() if place not in text]
    if not rows or (not named and any(below[place] for place in text)):
        return bool(text) and not named, None
    if not _may_be_names(named) or any(cell in columns[place] for place, cell in text.items()):
        return False, None  # a number or a text that only samples have
    in_steps = _in_steps(named)
    whole_over_decimals = any(
        cell.isdigit() and under and all(set(".,") & set(one) for one in column)
        for cell, under, column in zip(first, below, columns, strict=True)
    )
    if in_steps and whole_over_decimals and (text or len(named) > 2 or named[0] == "0"):
        return True, None
    if not text:
        alike = all(_in_steps(row[-len(named) :]) for row in rows)
        within = all(_within(number(cell), map(number, column)) for cell, column in zip(first, columns, strict=True) if cell)
        largest = max(abs(number(cell) or 0) for row in rows for cell in row)
        if named == list(map(str, range(len(named)))):  # as pandas writes an array; over its index there is no name
            header, sure = not alike and (len(named) > 2 or not within), not alike and first[0] == ""
        elif in_steps and len(named) > 2 and not within:  # years, wavelengths
            header, sure = int(named[0]) > 10 * largest, False
        else:
            return False, None
    else:
        shapes = [{_shape(other) for other in columns[place]} for place in text]
        other_shape = not any(_shape(cell) in seen for cell, seen in zip(text.values(), shapes, strict=True))
        header = not named or in_steps or other_shape or any(below[place] for place in text)
        chance = math.prod(_alone((cell, *columns[place])) for place, cell in text.items() if not below[place])
        sure = chance < _CHANCE
    if sure:
        return header, None
    shown = ", ".join(first[:6]) + (", ..." if len(first) > 6 else "")
    taken, other = ("the header", "a sample") if header else ("a sample", "the header")
    return (
        header,
        f"the first line, {shown}, is taken for {taken}: header={header} says so, header={not header} that it is {other}",
    )


def _all_numbers(column: Sequence[str], number: Callable[[str], float | None]) -> bool:
    there = [cell for cell in column if cell.lower() not in looks.MISSING]
    return bool(there) and all(number(cell) is not None for cell in there)


def _may_be_names(numbers: list[str]) -> bool:
    """Return whether numbers may be names of columns: whole, written plainly, and all different."""
    return all(re.fullmatch(r"0|[1-9]\d*", one) for one in numbers) and len(set(numbers)) == len(numbers)


def _in_steps(numbers: Sequence[str]) -> bool:
    """Return whether whole numbers, at least two, rise in equal steps, as years and wavelengths do."""
    if len(numbers) < 2 or not all(map(str.isdigit, numbers)):
        return False
    steps = {int(after) - int(before) for before, after in pairwise(numbers)}
    return len(steps) == 1 and steps.pop() > 0


def _within(cell: float | None, column: Iterable[float | None]) -> bool:
    """Return whether a number lies between the others."""
    there = [one for one in column if one is not None and not math.isnan(one)]
    return cell is not None and bool(there) and min(there) <= cell <= max(there)


def _shape(text: str) -> str:
    """Return the kinds of characters in a text: that of ``Rome 12`` is ``Aa 0``."""
    return re.sub(r"(.)\1+", r"\1", re.sub(r"\d", "0", re.sub(r"[^\W\d_A-Z]", "a", re.sub(r"[A-Z]", "A", text))))


def _alone(cells: Sequence[str]) -> float:
    """Return the share of cells that occur once: the chance that a sample's does."""
    return sum(count == 1 for count in Counter(cells).values()) / len(cells)


def _ragged(fault: str, form: _Form) -> str:
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", fault)
    if not found:
        return fault
    wanted, line, saw = found.groups()
    between = "blanks" if form.sep == r"\s+" else repr(form.sep)
    return f"line {line} has {saw} cells between {between}, the first {wanted}; sep= says what stands between cells"


def _check_lengths(path: Path, reading: Reading, form: _Form) -> None:
    """Raise ``ValueError`` for a line with fewer cells than there are columns, which pandas would fill up."""
    if len(form.sep) > 1 and form.sep != r"\s+":
        return
    with COMPRESSED.get(path.suffix.lower(), Path.open)(path, "rb") as file:
        text: Iterable[str] = io.TextIOWrapper(file, encoding=form.encoding, newline="")
        sep = form.sep
        if sep == r"\s+":
            sep, text = " ", (" ".join(line.split()) for line in text)
        lines = csv.reader(text, delimiter=sep, skipinitialspace=True)
        short = len(form.names) - (form.names[-1] == "")
        for number, record in enumerate(lines):
            if reading.comment and any(reading.comment in cell for cell in record):
                continue
            if any(map(str.strip, record)) and len(record) < short and number >= form.skip + form.header:
                line = form.sep.join(record).strip()
                raise ValueError(
                    f"{path} must be delimited text with lines of one length; line {lines.line_num} has {len(record)} cells "
                    f"between {form.sep!r}, not {short}: {_checks.shown(line)}"
                    + (f"; comment={line[0]!r} leaves it out" if line[0] in "#%;!/" else "")
                )


def _binary(path: Path) -> pandas.DataFrame:
    """Return the columns of a Parquet or Feather file, without an index; raise ``ValueError`` if it is damaged."""
    import pandas

    parquet = kind_of(path) == ".parquet"
    try:
        frame = pandas.read_parquet(path, engine="pyarrow") if parquet else pandas.read_feather(path)
    except ImportError as error:
        raise ImportError(f"reading {path} needs pyarrow: pip install 'consensus-opt[parquet]'") from error
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:  # a damaged file raises any of pyarrow's own kinds, or Python's
        raise ValueError(f"{path} is not a {'Parquet' if parquet else 'Feather'} file: {error}") from error
    return frame.set_axis(list(map(str, frame.columns)), axis=1)
