"""A user's own table as features and target: delimited text, Parquet or npz, by its suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import numpy as np

from consensus import _checks
from consensus._npz import Claim, claims
from consensus.data import readers
from consensus.data.frames import Classes, Columns, is_category

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")
Where: TypeAlias = Path | str  # what a table is called in messages
Features: TypeAlias = "dict[int, np.ndarray | pandas.Series]"  # columns by their place

SUFFIXES = (".csv", ".tsv", ".parquet", ".npz")
_SHOWN = 20  # names in a message


class Table(NamedTuple):
    """A table as features X (samples, features), target y (samples,), the classes behind its codes, and the columns."""

    X: np.ndarray
    y: np.ndarray
    classes: Classes | None
    columns: Columns | None


def read(
    path: Path, target: str | int | None = None, classification: bool | None = None, categories: Sequence[str | int] = ()
) -> Table:
    """Return the table in a file; arguments are those of :func:`consensus.datasets.load`."""
    if not path.exists():
        raise FileNotFoundError(f"name must be a file that exists; got {str(path)!r}")
    suffix, columns = path.suffix.lower(), None
    if suffix == ".npz":
        if len(categories):
            raise ValueError(
                f"categories go with tables of text and Parquet, not with arrays; got {list(categories)} for {path}"
            )
        label, X, y = _npz(path, "y" if target is None else target)
        for place, column in enumerate(X.T):
            _check_finite(path, f"column {place}", column)
    else:
        frame = opened(path, words=bool(categories))
        names, label, y, features = parts(path, frame, target, categories, is_text(path))
        X, columns = _features(path, names, features)
    if X.size == 0:
        raise ValueError(f"{path} has no {'features besides the target' if len(X) else 'rows'}")
    X = X.astype(np.float32 if X.dtype == np.float32 else float, copy=False)
    return Table(X, *target_of(path, label, y, classification), columns)


def is_text(path: Path) -> bool:
    """Return whether a table's file is delimited text."""
    return path.suffix.lower() != ".parquet"


def opened(path: Path, words: bool) -> pandas.DataFrame:
    """Return the columns in a file of text or Parquet; ``words`` says whether text is left as it is, for categories."""
    frame = readers.text(path, words) if is_text(path) else readers.parquet(path)
    if not len(frame):
        raise ValueError(f"{path} has no rows")
    return frame


def parts(
    path: Where, frame: pandas.DataFrame, target: str | int | None, categories: Sequence[str | int], words: bool
) -> tuple[list[str | int], str, np.ndarray, Features]:
    """Return the names of all columns, the target's name for messages, the target, and the other columns by place.

    With ``words`` text may be numbers.
    """
    names, table = list(frame.columns), [column for _, column in frame.items()]
    position = position_of(path, "target", names, target)
    marked = {position_of(path, "categories", names, one) for one in categories}
    if position in marked:
        raise ValueError(f"categories must be features; got the target, {names[position]!r}")
    features = {
        place: _category(path, names[place], column)
        if place in marked or is_category(column)
        else readers.values(column, words)
        for place, column in enumerate(table)
        if place != position
    }
    return names, f"column {names[position]!r}", readers.values(table[position], words), features


def _check_finite(path: Where, label: str, column: np.ndarray) -> None:
    if not (finite := np.isfinite(column)).all():
        raise _unknown(path, label, finite.argmin(), column[finite.argmin()])


def position_of(path: Where, argument: str, names: list[str | int], target: str | int | None) -> int:
    """Return the place of the column ``target``, given by name or index in ``argument``."""
    count = len(names)
    if isinstance(target, Integral) and not isinstance(target, bool) and -count <= target < count:
        return int(target) % count
    if isinstance(target, str) and names.count(target) == 1:
        return names.index(target)
    repeated = isinstance(target, str) and target in names
    raise ValueError(
        f"{argument} must be a column of {path}, one of {_listed(map(repr, names))}, or an index from {-count} to {count - 1}; "
        f"got {target!r}" + (", a name that several columns have" if repeated else "")
    )


def _category(path: Where, name: str | int, column: pandas.Series) -> pandas.Series:
    """Return the column in pandas' ``category`` dtype."""
    if (missing := column.isna().to_numpy()).any():
        raise _unknown(path, f"column {name!r}", missing.argmax(), np.nan)
    return column if is_category(column) else column.astype("category")


def checked_frame(path: Where, names: list[str | int], table: Features) -> pandas.DataFrame:
    """Return features by place as a data frame of finite numbers and categories."""
    import pandas

    numbers = {place: column for place, column in table.items() if not is_category(column)}
    text = {place: _first_text(column) for place, column in numbers.items() if column.dtype.kind not in "fiub"}
    if text:
        cells = (f"{names[place]!r} ({_checks.shown(numbers[place][row])} in row {row})" for place, row in text.items())
        raise ValueError(
            f"features must be numbers or categories; these columns of {path} are not: {_listed(cells)}. Name them in "
            "categories, or remove them"
        )
    for place, column in numbers.items():
        _check_finite(path, f"column {names[place]!r}", column)
    return pandas.DataFrame(table).set_axis([str(names[place]) for place in table], axis=1)


def _features(path: Path, names: list[str | int], table: Features) -> tuple[np.ndarray, Columns | None]:
    """Return the features, and their columns unless several of these share a name; ``table`` has them by place."""
    if not table:
        return np.empty((1, 0)), None
    frame = checked_frame(path, names, table)
    if not any(is_category(column) for column in table.values()) and not frame.columns.is_unique:
        return np.column_stack(list(table.values())), None
    columns = Columns.of(frame, str(path))
    assert columns is not None, "it is a data frame"
    return columns.transform(frame, str(path)), columns


def target_of(path: Where, label: str, y: np.ndarray, classification: bool | None) -> tuple[np.ndarray, Classes | None]:
    """Return the target as numbers, or as codes of its sorted classes and these."""
    words = y.dtype.kind in "US" or (y.dtype.kind == "O" and all(cell is None or isinstance(cell, str) for cell in y))
    if not words and y.dtype.kind not in "fiub":
        raise ValueError(f"target must hold numbers or text; {label} of {path} has dtype {y.dtype}, such as {y[0]!r}")
    if words:
        y = np.array(["" if cell is None else cell for cell in y.tolist()]).astype(str)
    unknown = np.flatnonzero(np.isin(np.char.lower(y), readers.MISSING) if words else ~np.isfinite(y))
    if len(unknown):
        raise _unknown(path, label, unknown[0], np.nan if words else y[unknown[0]])
    if words and not classification:
        numbers = sum(map(readers.is_number, y))
        if classification is not None or 0 < numbers < len(y):  # a slip in a column of numbers makes no classes
            row = _first_text(y)
            raise ValueError(
                f"target must be all numbers or, for classes, all text; {label} of {path} has the text {str(y[row])!r} in row "
                f"{row}. Pass classification=True if its values are classes; got classification={classification}"
            )
    if not (classification or (classification is None and (words or y.dtype == bool))):
        return y.astype(float), None
    classes, codes = np.unique(y, return_inverse=True)
    if classes.dtype.kind == "f" and (classes == np.rint(classes)).all():
        classes = classes.astype(int)
    return codes, tuple(classes.tolist())


def _first_text(column: np.ndarray) -> int:
    """Return the row of the first cell that is not a number."""
    return next((row for row, cell in enumerate(column.tolist()) if not readers.is_number(cell)), 0)


def npz(path: Path, *names: str, check: Callable[[dict[str, Claim]], None] | None = None) -> dict[str, np.ndarray]:
    """Return the arrays ``names`` of an npz file, by name.

    Raises ``ValueError`` that names the file if one is missing, or the file is damaged or no npz file. ``check`` is called with
    dtypes and shapes before any array is read.
    """
    claimed, there = claimed_by(path)
    missing = [repr(name) for name in names if name not in claimed]
    if missing:
        raise ValueError(f"{path} must have the array {', '.join(missing)}; it has {there}")
    if check is not None:
        check({name: claimed[name] for name in names})
    return _opened(path, lambda file: {name: file[name] for name in names})


def claimed_by(path: Path) -> tuple[dict[str, Claim], str]:
    """Return the dtype and shape of each array of an npz file, by name, without reading it, and a list of the names."""
    return _opened(path, lambda file: (claims(file), _listed(map(repr, file.files))))


def _opened(path: Path, read: Callable[[np.lib.npyio.NpzFile], T]) -> T:
    """Return ``read(file)`` of an npz file; raise ``ValueError`` that names the file if it fails."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return read(file)
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:  # a damaged file raises any of those of zipfile, zlib, NumPy's own format, ...
        if "Object arrays" in str(error):
            reason = "holds Python objects, which are not read because they could run code: save text with dtype=str"
        else:
            reason = f"is not an npz file, or is damaged: {error}"
        raise ValueError(f"{path} {reason}") from error


def _npz(path: Path, target: str | int) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the name of the target for messages, the features and the target."""
    claimed, there = claimed_by(path)
    if "X" not in claimed:
        raise ValueError(f"{path} must have an array 'X' (samples, features); it has {there}")
    if not isinstance(target, str) or target not in claimed:
        raise ValueError(f"target must be an array of {path}, which has {there}; got {target!r}")
    X, y = claimed["X"], claimed[target]
    if X.ndim != 2 or X.dtype.kind not in "fiubO":  # objects are not read
        raise ValueError(f"array 'X' of {path} must be numbers (samples, features); got {X.dtype} {X.shape}")
    if y.shape != X.shape[:1]:
        raise ValueError(f"array {target!r} of {path} must have shape {X.shape[:1]}, a value for each row of X; got {y.shape}")
    arrays = npz(path, "X", target)
    return f"array {target!r}", arrays["X"], arrays[target]


def _unknown(path: Where, label: str, row: int, value: float) -> ValueError:
    what = "a missing" if np.isnan(value) else "an infinite"
    return ValueError(f"{label} of {path} has {what} value in row {row} (the first is 0): fill it in or remove the row")


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:_SHOWN]) + (f", ... ({len(shown)} in all)" if len(shown) > _SHOWN else "")
