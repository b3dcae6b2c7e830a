"""A user's own table as features and target: a data frame, or a file of text, Parquet, Feather or npz, by its suffix."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from consensus import _checks
from consensus.checkpoints.storage import Claim, claims
from consensus.tables import looks, readers
from consensus.tables.frames import (
    Classes,
    Columns,
    Reading,
    as_frame,
    categories_of,
    is_category,
    is_frame,
    listed,
    missing_cells,
    not_numbers,
    numbers_of,
)

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")
Where: TypeAlias = Path | str  # what a table is called in messages
Column: TypeAlias = str | int  # by name or place

SUFFIXES = (*readers.TABLES, ".npz")
MISSING = ("error", "drop", "mean", "indicator")
_SHOWN = 20  # names in a message


@dataclass(frozen=True)
class Roles:
    """Roles of a table's columns: the arguments of :func:`consensus.datasets.load`."""

    target: Column | Sequence[Column] | None = None
    classification: bool | None = None
    categories: Sequence[Column] = ()
    features: Sequence[Column] | int | None = None  # of svmlight their number
    drop: Sequence[Column] = ()
    weights: Column | None = None
    groups: Column | None = None
    time: Column | None = None
    missing: str = "error"
    unknown: str = "error"

    def __post_init__(self) -> None:
        _checks.choice("classification", self.classification, (None, True, False))
        _checks.choice("missing", self.missing, MISSING)
        _checks.choice("unknown", self.unknown, ("error", "zeros"))
        for name in ("categories", "drop", "features"):
            columns = getattr(self, name)
            if name == "features" and (columns is None or (isinstance(columns, Integral) and not isinstance(columns, bool))):
                continue
            if not isinstance(columns, list | tuple) or not all(isinstance(one, str | Integral) for one in columns):
                raise TypeError(f"{name} must be a list of columns, by name or index; got {_checks.shown(columns)}")


def given(roles: Roles, reading: Reading) -> dict[str, Any]:
    """Return the arguments that are not what they are by default."""
    return {name: value for own in (roles, reading) for name, value in vars(own).items() if value != getattr(type(own)(), name)}


class Table(NamedTuple):
    """A table as features (samples, features), target (samples,) or (samples, outputs), and what is known of them."""

    X: np.ndarray
    y: np.ndarray
    classes: Classes | None
    columns: Columns | None
    names: tuple[str, ...] = ()  # of the target
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    time: np.ndarray | None = None
    frame: pandas.DataFrame | None = None  # its columns are ``columns.names``, ``columns.others``


def read(data: pandas.DataFrame | Path, roles: Roles, reading: Reading) -> Table:
    """Return the table in a file or a data frame."""
    if not isinstance(data, Path):
        return table_of("the data frame", data, roles, None)
    if not data.exists():
        raise FileNotFoundError(f"name must be a file that exists; got {str(data)!r}")
    if readers.kind_of(data) != ".npz":
        frame, reading = opened(data, roles, reading)
        return table_of(data, frame, roles, reading)
    if roles != Roles(roles.target, roles.classification) or reading != Reading():
        raise ValueError(f"categories and the like go with tables of text and Parquet, not with arrays, as in {data}")
    label, X, y = _npz(data, "y" if roles.target is None else roles.target)
    for place, column in enumerate(X.T):
        _check_finite(data, f"column {place}", column)
    if X.size == 0:
        raise ValueError(f"{data} has no {'features besides the target' if len(X) else 'rows'}")
    X = X.astype(np.float32 if X.dtype == np.float32 else float, copy=False)
    return Table(X, *target_of(data, label, y, roles.classification), None)


def opened(path: Path, roles: Roles, reading: Reading) -> tuple[pandas.DataFrame, Reading]:
    """Return the table in a file, and how another one like it is read."""
    return readers.opened(path, reading, [one for one in (*roles.categories, roles.groups) if one is not None])


def table_of(where: Where, data: object, roles: Roles, reading: Reading | None) -> Table:
    """Return a data frame's features and target. With ``reading`` it was read from a file, whose options errors then name."""
    frame = as_frame(data)
    if not is_frame(frame):
        raise TypeError(f"{where} must be a data frame; got {_checks.shown(data)}")
    if not len(frame):
        raise ValueError(f"{where} has no rows")
    names = list(frame.columns) if reading is not None else list(map(str, frame.columns))
    place = _Places(where, names)
    several = isinstance(roles.target, list | tuple)
    targets = [place("target", one) for one in (roles.target if several else [roles.target])]  # type: ignore[union-attr]
    if not targets or len(set(targets)) < len(targets):
        raise ValueError(f"target must be columns, each once; got {roles.target!r}")
    marked = {place("categories", one) for one in roles.categories}
    singles = {name: place.optional(name, getattr(roles, name)) for name in ("weights", "groups", "time")}
    apart = {*targets, *(one for one in singles.values() if one is not None), *(place("drop", one) for one in roles.drop)}
    if isinstance(roles.features, int | Integral):
        raise TypeError(f"features must be a list of columns, by name or index; got {roles.features}")
    wanted = range(len(names)) if roles.features is None else [place("features", one) for one in roles.features]
    if roles.features is not None and apart.intersection(wanted):
        taken = next(one for one in wanted if one in apart)
        raise ValueError(f"features must be other columns than target, weights, groups, time and drop; got {names[taken]!r}")
    if marked & set(targets):
        raise ValueError(f"categories must be features; got the target, {names[(marked & set(targets)).pop()]!r}")
    kept = [one for one in wanted if one not in apart]
    if not kept:
        raise ValueError(f"{where} has no features besides the target")
    series = [column for _, column in frame.items()]
    text = {
        str(names[one]): series[one]
        for one in kept
        if one not in marked and not is_category(series[one]) and numbers_of(series[one]) is None
    }
    if text:
        raise not_numbers(where, text, from_file=reading is not None)
    present = _rows_that_stay(where, frame, kept, [*targets, *(one for one in singles.values() if one is not None)], roles)
    if present is not None:
        series = [column[present] for column in series]
    columns = _columns(where, names, series, kept, marked, roles, reading)
    frame = (frame if present is None else frame[present]).set_axis(list(map(str, names)), axis=1).iloc[:, kept]
    X = columns.transform(frame, str(where))
    X = X.astype(np.float32 if X.dtype == np.float32 else float, copy=False)
    if (infinite := np.isinf(X)).any():
        row, at = np.argwhere(infinite)[0].tolist()
        raise _unknown(where, f"column {columns.features[at]!r}", row, np.inf)
    for name in (names[one] for one in (*kept, *targets) if one not in marked):
        if name in (seen := frame.attrs.get(readers.LOOKS, {})):
            _checks.warn(f"{where} has numbers in {name!r}, and takes them as they are; {seen[name]}")
    _warn_of_stand_ins(where, {str(names[one]): series[one] for one in (*kept, *targets) if one not in marked}, reading)
    y, classes = _targets(where, [(names[one], series[one]) for one in targets], several, roles, reading is not None)
    found = Table(X, y, classes, columns, tuple(str(names[one]) for one in targets), frame=frame)
    return found._replace(
        **{
            name: getattr(_Single(where, str(names[one]), series[one]), name)()
            for name, one in singles.items()
            if one is not None
        }
    )


def _warn_of_stand_ins(where: Where, columns: Mapping[str, pandas.Series], reading: Reading | None) -> None:
    """Warn of numbers that seem to stand for missing ones."""
    found = {label: numbers_of(column) for label, column in columns.items() if not is_category(column)}
    likely = {label: number for label, one in found.items() if one is not None and (number := looks.stand_in(one)) is not None}
    if likely:
        values = sorted(set(likely.values()))
        others = (one for label, one in found.items() if one is not None and label not in likely)
        gone = f"na_values={values}"
        if reading is None or any(np.isin(one, values).any() for one in others):  # there it is a number like others
            gone = f"frame.replace({likely}, numpy.nan)" + (" of what pandas.read_csv returns" if reading is not None else "")
        _checks.warn(
            f"{where} has numbers that may stand for missing ones, the only ones below 0 in their columns, and takes them as "
            f"they are: {', '.join(f'{number} in {label!r}' for label, number in likely.items())}; {gone} makes them missing"
        )


@dataclass(frozen=True)
class _Places:
    """The places of columns that an argument names."""

    where: Where
    names: Sequence[str | int]

    def __call__(self, argument: str, column: object) -> int:
        return readers.position_of(self.where, argument, self.names, column)

    def optional(self, argument: str, column: object) -> int | None:
        return None if column is None else self(argument, column)


@dataclass(frozen=True)
class _Single:
    """A column that is neither a feature nor the target."""

    where: Where
    name: str
    column: pandas.Series

    def weights(self) -> np.ndarray:
        found = numbers_of(self.column)
        if found is None or not np.isfinite(found).all() or (found < 0).any():
            raise ValueError(f"weights must be finite numbers >= 0; column {self.name!r} of {self.where} has others")
        return found.astype(float)

    def groups(self) -> np.ndarray:
        return np.array([looks.text_of(cell) for cell in self.column.astype(object)], object).astype(str)

    def time(self) -> np.ndarray:
        """Return times as numbers, or as dates if they are text."""
        import pandas

        found = numbers_of(self.column)
        if found is None:
            try:
                found = pandas.to_datetime(self.column, utc=True).to_numpy("datetime64[ns]")
            except (ValueError, TypeError) as error:
                raise ValueError(f"time must be numbers or dates; column {self.name!r} of {self.where}: {error}") from error
        return found


def _rows_that_stay(
    where: Where, frame: pandas.DataFrame, features: Sequence[int], others: Sequence[int], roles: Roles
) -> np.ndarray | None:
    """Return which rows stay, if not all do; raise ``ValueError`` with all columns that have missing cells, if none may."""
    names = list(map(str, frame.columns))
    counts = {one: int(frame.iloc[:, one].isna().sum()) for one in dict.fromkeys((*features, *others))}
    absent = {one: count for one, count in counts.items() if count}
    if not absent:
        return None
    if roles.missing == "drop":
        present = frame.iloc[:, list(absent)].notna().to_numpy().all(axis=1)
        if not present.any():
            raise ValueError(f"missing='drop' would leave no row of {where}: each has a missing value")
        said = f"{where}: missing='drop' leaves out %d of %d rows, with missing values in %s"
        counted = ", ".join(f"{names[one]!r} ({count})" for one, count in absent.items())
        logging.getLogger("consensus").info(said, (~present).sum(), len(present), counted)
        return np.asarray(present)
    wrong = absent if roles.missing == "error" else {one: count for one, count in absent.items() if one in others}
    if not wrong:
        return None
    raise missing_cells(where, {names[one]: count for one, count in wrong.items()}, len(frame), not set(wrong) & set(others))


def _columns(
    where: Where,
    names: Sequence[str | int],
    series: Sequence[pandas.Series],
    kept: Sequence[int],
    marked: set[int],
    roles: Roles,
    reading: Reading | None,
) -> Columns:
    """Return the columns that become features; raise ``ValueError`` if two share a name, or one is empty."""
    own = [str(names[one]) for one in kept]
    if len(set(own)) < len(own):
        twice = [name for name in dict.fromkeys(own) if own.count(name) > 1]
        raise ValueError(
            f"columns of {where} must have names of their own; got more than one of {listed(twice)}: "
            f"drop=[{kept[own.index(twice[0])]}] leaves one out by its place"
        )
    categories = {
        str(names[one]): categories_of(f"column {names[one]!r}", series[one])
        for one in kept
        if one in marked or is_category(series[one])
    }
    empty = [str(names[one]) for one in kept if not series[one].notna().any()]
    if empty:
        raise ValueError(f"{where} has no values at all in the column {empty[0]!r}: drop=[{empty[0]!r}] leaves it out")
    gone = tuple(str(names[one]) for one in kept if roles.missing == "indicator" and series[one].isna().any())
    rule = "mean" if roles.missing in ("mean", "indicator") else "error"
    others = tuple(str(names[one]) for one in range(len(names)) if one not in kept)
    return Columns(tuple(own), categories, others, rule, gone, None, roles.unknown, reading)


def _targets(
    where: Where, columns: Sequence[tuple[str | int, pandas.Series]], several: bool, roles: Roles, from_file: bool
) -> tuple[np.ndarray, Classes | None]:
    """Return one target (samples,), or ``several`` of numbers (samples, outputs)."""
    classification = roles.classification
    if not several:
        name, column = columns[0]
        if classification is None and is_category(column):
            classification = True
        return target_of(where, f"column {name!r}", values(column), classification, from_file)
    if classification:
        raise ValueError("several targets must be numbers; got classification=True")
    found = [target_of(where, f"column {name!r}", values(column), False, from_file)[0] for name, column in columns]
    return np.stack(found, axis=1), None


def values(column: pandas.Series) -> np.ndarray:
    """Return a column as numbers, booleans, or objects."""
    found = numbers_of(column)
    if found is None:
        return np.asarray(column.astype(object).to_numpy(object))
    if found.dtype.kind == "f" and column.dtype.kind == "O" and all(isinstance(one, bool | np.bool_) for one in column):
        return found.astype(bool)
    return found


def _check_finite(path: Where, label: str, column: np.ndarray) -> None:
    if not (finite := np.isfinite(column)).all():
        raise _unknown(path, label, int(finite.argmin()), column[finite.argmin()])


def target_of(
    where: Where, label: str, y: np.ndarray, classification: bool | None, from_file: bool = True
) -> tuple[np.ndarray, Classes | None]:
    """Return ``(y, classes)``: numbers and None, or class codes and the sorted classes."""
    words = y.dtype.kind in "US" or (y.dtype.kind == "O" and all(isinstance(cell, str) for cell in y))
    if not words and y.dtype.kind == "O" and not all(isinstance(cell, str) or looks.is_number(cell) for cell in y):
        raise ValueError(f"target must hold numbers or text; {label} of {where} has {_checks.shown(y[0])}")
    if not words and y.dtype.kind not in "fiubO":
        raise ValueError(f"target must hold numbers or text; {label} of {where} has dtype {y.dtype}, such as {y[0]!r}")
    if y.dtype.kind == "O" and not words:
        y, words = np.array(list(map(looks.text_of, y)), object), True
    if words:
        y = y.astype(str)
    unknown = np.flatnonzero(np.isin(np.char.lower(y), looks.MISSING) if words else ~np.isfinite(y))
    if len(unknown):
        raise _unknown(where, label, int(unknown[0]), np.nan if words else float(y[unknown[0]]))
    if words and not classification:
        numbers = sum(map(looks.is_number, y.tolist()))
        found = looks.look(y.tolist())
        row = next((row for row, cell in enumerate(y.tolist()) if not looks.is_number(cell)), 0)
        said = f"{label} of {where} has the text {str(y[row])!r} in row {row} (the first is 0)"
        if found is not None:
            name = label.removeprefix("column ").strip("'")
            raise ValueError(
                f"target must be numbers or classes; {said}, which looks like {found.what}: "
                f"{looks.remedy(found, name, from_file)}; or classification=True if these are classes"
            )
        if classification is not None or numbers > 0:  # a slip in a column of numbers makes no classes
            raise ValueError(
                f"target must be all numbers or, for classes, all text; {said}. Pass classification=True if its values are "
                f"classes; got classification={classification}"
            )
    if not (classification or (classification is None and (words or y.dtype == bool))):
        return y.astype(float), None
    classes, codes = np.unique(y, return_inverse=True)
    twice = [texts for texts in _by_case(classes) if len(texts) > 1] if words else []
    if twice:
        _checks.warn(f"{label} of {where} has classes that differ by capitals alone, and takes them as they are: {twice[0]}")
    if classes.dtype.kind == "f" and (classes == np.rint(classes)).all():
        classes = classes.astype(int)
    return codes, tuple(classes.tolist())


def _by_case(texts: np.ndarray) -> list[list[str]]:
    """Return the texts that are the same but for capitals."""
    found: dict[str, list[str]] = {}
    for text in texts.tolist():
        found.setdefault(text.casefold(), []).append(text)
    return list(found.values())


def _unknown(path: Where, label: str, row: int, value: float) -> ValueError:
    what = "a missing" if np.isnan(value) else "an infinite"
    return ValueError(f"{label} of {path} has {what} value in row {row} (the first is 0): fill it in or remove the row")


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
    return _opened(path, lambda file: (claims(file), listed(file.files, _SHOWN)))


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


def _npz(path: Path, target: object) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the name of the target for messages, the features and the target."""
    claimed, there = claimed_by(path)
    if "X" not in claimed:
        raise ValueError(f"{path} must have an array 'X' (samples, features); it has {there}")
    if not isinstance(target, str) or target not in claimed:
        raise ValueError(f"target must be an array of {path}, which has {there}; got {target!r}")
    X, y = claimed["X"], claimed[target]
    if X.ndim != 2 or X.dtype.kind not in "fiubO":  # objects are not read
        raise ValueError(f"array 'X' of {path} must be numbers (samples, features); got {X.dtype} {X.shape}")
    if y.shape not in (X.shape[:1], (X.shape[0], 1)):
        raise ValueError(f"array {target!r} of {path} must have shape {X.shape[:1]}, a value for each row of X; got {y.shape}")
    arrays = npz(path, "X", target)
    return f"array {target!r}", arrays["X"], arrays[target].reshape(X.shape[0])
