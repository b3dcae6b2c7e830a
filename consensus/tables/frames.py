"""Data frames as numbers, and arrays that know the columns and classes of the table they come from."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._checks import listed as listed
from consensus.data.tables import Classes as Classes
from consensus.tables import looks
from topologies import _names

if TYPE_CHECKING:
    import pandas

_ALWAYS = ("names", "categories")
_FEW = 0.5  # share of different texts in a column up to which it may be categories
_DESCRIBED = {"count", "mean", "std", "min", "25%", "50%", "75%", "max"}


@dataclass(frozen=True)
class Reading:
    r"""Options for reading a file of text, named as in pandas; None leaves the choice to the file.

    Parameters
    ----------
    sep : str, optional
        What stands between cells: a character, or ``"\s+"`` for blanks.
    decimal, thousands : str
        The decimal point, and what stands between thousands.
    encoding : str, optional
        Such as ``"latin-1"``.
    comment : str, optional
        The character that begins a comment.
    header : bool or sequence of str, optional
        Whether the first line is a header; or names, for a file without one.
    index : bool or str or int, optional
        Whether the first column is the index of a data frame; or the column that is, by name or place.
    na_values : sequence of str or float
        Cells that are missing, beside empty ones and ``NA``, ``NaN``, ``N/A``, ``null``, ``?``.
    """

    sep: str | None = None
    decimal: str = "."
    thousands: str | None = None
    encoding: str | None = None
    comment: str | None = None
    header: bool | Sequence[str] | None = None
    index: bool | str | int | None = None
    na_values: Sequence[str | float] = ()

    def __post_init__(self) -> None:
        for name in ("sep", "encoding"):
            if (value := getattr(self, name)) is not None and (not isinstance(value, str) or not value):
                raise TypeError(
                    f"{name} must be text, such as {';' if name == 'sep' else 'latin-1'!r}; got {_checks.shown(value)}"
                )
        for name in ("decimal", "thousands", "comment"):
            value = getattr(self, name)
            if not (isinstance(value, str) and len(value) == 1) and (value is not None or name == "decimal"):
                raise ValueError(f"{name} must be one character; got {_checks.shown(value)}")
        if self.decimal == self.thousands:
            raise ValueError(f"decimal and thousands must differ; got {self.decimal!r} for both")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError as error:
                raise ValueError(f"encoding must be one that Python knows, such as 'latin-1'; got {self.encoding!r}") from error
        if not isinstance(self.header, bool | None):
            if isinstance(self.header, str) or not isinstance(self.header, Sequence):
                raise TypeError(f"header must be True, False or a list of names; got {_checks.shown(self.header)}")
            object.__setattr__(self, "header", tuple(map(str, self.header)))
        if not isinstance(self.index, bool | str | int | None):
            raise TypeError(f"index must be True, False or a column, by name or place; got {_checks.shown(self.index)}")
        if isinstance(self.na_values, str | float | int):
            object.__setattr__(self, "na_values", (self.na_values,))
        if not isinstance(self.na_values, Sequence) or not all(isinstance(one, str | float | int) for one in self.na_values):
            raise TypeError(f"na_values must be a list of text or numbers; got {_checks.shown(self.na_values)}")
        object.__setattr__(self, "na_values", tuple(self.na_values))


@dataclass(frozen=True)
class Columns:
    """The columns of a table, and how they become features.

    Numbers and booleans are one feature each. A column of categories becomes a feature for each category: one in rows of the
    category, and zero elsewhere. Categories are known by their texts; 1, 1.0 and "1" are one.

    Parameters
    ----------
    names : tuple of str
        The columns that become features.
    categories : dict of str to tuple of str
        The categories, as text, of each column that has some.
    others : tuple of str
        Columns that a table may have besides, such as the target; they are not read.
    missing : {"error", "mean"}
        Whether missing cells are rejected, or replaced by ``fill``.
    indicators : tuple of str
        Columns with one more feature: one where the cell is missing.
    fill : tuple of float, optional
        For each feature what stands for a missing one: its mean in training. If it is not given, missing cells stay NaN.
    unknown : {"error", "zeros"}
        Whether a category that is not listed is rejected, or has zeros for all categories.
    reading : Reading, optional
        How the file was read, if it was one.

    Examples
    --------
    >>> import pandas as pd
    >>> from consensus.data import Columns
    >>> frame = pd.DataFrame({"age": [31, 47], "town": pd.Categorical(["Rome", "Oslo"]), "smokes": [True, False]})
    >>> columns = Columns.of(frame)
    >>> columns.features
    ('age', 'town_Oslo', 'town_Rome', 'smokes')
    >>> columns.transform(frame)
    array([[31.,  0.,  1.,  1.],
           [47.,  1.,  0.,  0.]])
    """

    names: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    others: tuple[str, ...] = ()
    missing: str = "error"
    indicators: tuple[str, ...] = ()
    fill: tuple[float, ...] | None = None
    unknown: str = "error"
    reading: Reading | None = None

    @classmethod
    def of(cls, frame: object, name: str = "frame") -> Self | None:
        """Return the columns of a data frame.

        Parameters
        ----------
        frame : object
            A data frame, or anything else.
        name : str
            Its name in errors.

        Returns
        -------
        Columns or None
            The columns; None if ``frame`` is no data frame.

        Raises
        ------
        ValueError
            If two columns have the same name, or a column has categories that are the same as text.
        """
        if not is_frame(frame):
            return None
        names = tuple(map(str, frame.columns))
        twice = [label for label in dict.fromkeys(names) if names.count(label) > 1]
        if twice:
            raise ValueError(f"columns of {name} must have names of their own; got more than one of {listed(twice)}")
        found = zip(names, (column for _, column in frame.items()), strict=True)
        categories = {label: categories_of(f"column {label!r}", column) for label, column in found if is_category(column)}
        return cls(names, categories)

    @classmethod
    def from_dict(cls, found: object) -> Self:
        """Return the columns that :func:`dataclasses.asdict` made a dictionary of, perhaps through JSON.

        Parameters
        ----------
        found : object
            The dictionary.

        Returns
        -------
        Columns
            The columns.

        Raises
        ------
        ValueError
            If it is no such dictionary.
        """
        try:
            about = dict(cast("Mapping[str, Any]", found))
            lists = [about["names"], *about["categories"].values(), about.get("others", ()), about.get("indicators", ())]
            if not all(isinstance(one, list | tuple) and all(isinstance(text, str) for text in one) for one in lists):
                raise ValueError("names must be text")
            about |= {name: tuple(about.get(name, ())) for name in ("names", "others", "indicators")}
            about["categories"] = {name: tuple(texts) for name, texts in about["categories"].items()}
            if about.get("fill") is not None:
                about["fill"] = tuple(map(float, about["fill"]))
            if about.get("reading") is not None:
                about["reading"] = Reading(**about["reading"])
            return cls(**about)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"columns must be names and categories; got {_checks.shown(found)}") from error

    def to_dict(self) -> dict[str, Any]:
        """Return the names, the categories and what else is not as by default, for JSON and :meth:`from_dict`.

        Returns
        -------
        dict
            Fields by name.
        """
        default = Columns((), {})
        return {name: value for name, value in asdict(self).items() if value != getattr(default, name) or name in _ALWAYS}

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features; that of a category is like ``town_Rome``, of an indicator like ``town_missing``."""
        parts = [[f"{label}_{category}" for category in self.categories.get(label, ())] or [label] for label in self.names]
        marks = [[f"{label}_missing"] if label in self.indicators else [] for label in self.names]
        return tuple(name for part, mark in zip(parts, marks, strict=True) for name in (*part, *mark))

    def transform(self, frame: object, name: str = "frame") -> np.ndarray:
        """Return the features of a data frame with these columns, in any order.

        Parameters
        ----------
        frame : pandas.DataFrame
            The data frame; one of polars, or of another library with the dataframe interchange, is converted.
        name : str
            Its name in errors.

        Returns
        -------
        ndarray (samples, features)
            The features.

        Raises
        ------
        TypeError
            If it is no data frame.
        ValueError
            If a column is missing or unknown, is neither numbers nor categories, has an unknown category or missing values.
        """
        frame = as_frame(frame)
        if not is_frame(frame):
            raise TypeError(f"{name} must be a data frame with the columns {listed(self.names)}; got {_checks.shown(frame)}")
        given = list(map(str, frame.columns))
        own = [label for label in given if label in self.names or label not in self.others]
        if sorted(own) != sorted(self.names):
            missing, odd = (listed(sorted({*a} - {*b})) or "none" for a, b in ((self.names, own), (own, self.names)))
            raise ValueError(f"{name} must have the columns {listed(self.names)}; missing: {missing}; not known: {odd}")
        places = [given.index(label) for label in self.names]
        parts: list[np.ndarray] = []
        text: dict[str, Any] = {}
        absent: dict[str, int] = {}
        for label, place in zip(self.names, places, strict=True):
            column = frame.iloc[:, place]
            if label in self.categories:
                part = self._one_hot(f"column {label!r} of {name}", column, self.categories[label])
            elif (found := numbers_of(column)) is None:
                text[label] = column
                continue
            else:
                part = found[:, None]
            gone = np.isnan(part[:, 0]) if part.dtype.kind == "f" else np.zeros(len(part), bool)
            if gone.any():
                absent[label] = int(gone.sum())
            parts += [part, gone[:, None].astype(part.dtype)] if label in self.indicators else [part]
        if text:
            raise not_numbers(name, text, from_file=self.reading is not None)
        if absent and self.missing == "error":
            raise missing_cells(name, absent, len(frame))
        if not parts:
            return np.empty((len(frame), 0))
        features = np.concatenate(parts, axis=1, dtype=_common(parts), casting="unsafe")
        return filled(features, self.fill) if absent and self.fill is not None else features

    def filled_by(self, means: np.ndarray) -> Columns:
        """Return these columns, whose missing cells become ``means`` (features,); the same if they may not be missing.

        Parameters
        ----------
        means : ndarray (features,)
            The means of the features that are there.

        Returns
        -------
        Columns
            The columns.
        """
        return replace(self, fill=tuple(means.tolist())) if self.missing == "mean" else self

    def _one_hot(self, name: str, column: pandas.Series, categories: tuple[str, ...]) -> np.ndarray:
        there = column.notna().to_numpy()
        one_hot = np.zeros((len(column), len(categories)))
        one_hot[~there] = np.nan
        found = codes(name, column.astype(object)[there], categories, self.unknown == "error")
        one_hot[np.flatnonzero(there)[found >= 0], found[found >= 0]] = 1
        return one_hot


def _common(parts: Sequence[np.ndarray]) -> np.dtype[Any]:
    """Return the dtype of features: that of all parts, or float64; with one-hot features float32 if all others are."""
    single = [part.dtype for part in parts if part.shape[1] == 1] or [np.dtype(float)]
    if any(part.dtype.kind == "b" for part in parts):
        return np.dtype(float)
    found = np.result_type(*single)
    return found if len(single) == len(parts) or found == np.float32 else np.dtype(float)


class Target(NamedTuple):
    """Description of a target: the names of its columns, and its classes if it consists of class codes."""

    names: tuple[str, ...] = ()
    classes: Classes | None = None


class Labelled(np.ndarray):
    """An array that knows what it is: features their :class:`Columns`, targets their :class:`Target`.

    Rows that are selected know it, too; whatever else is made of it is a plain array.
    """

    about: Columns | Target | None = None

    @classmethod
    def of(cls, array: np.ndarray, about: Columns | Target | None) -> np.ndarray:
        """Return the array, or a view of it that knows what it is."""
        if about is None:
            return array
        found = np.asarray(array).view(cls)
        found.about = about
        return found

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401  # of any kind that NumPy takes
        found = super().__getitem__(key)
        if not isinstance(found, Labelled):
            return found
        whole = isinstance(key, tuple) and all(part is Ellipsis or part == slice(None) for part in key[1:])
        rows = (not isinstance(key, tuple) or (len(key) > 1 and whole)) and found.ndim == self.ndim
        return Labelled.of(found, self.about) if rows and key is not None else np.asarray(found)

    def copy(self, order: Any = "C") -> Any:  # noqa: ANN401
        return Labelled.of(np.array(self, order=order), self.about)

    def astype(self, *args: Any, **settings: Any) -> Any:  # noqa: ANN401
        return Labelled.of(np.asarray(self).astype(*args, **settings), self.about)

    def __array_wrap__(self, array: np.ndarray, context: object = None, return_scalar: bool = False) -> Any:  # noqa: ANN401
        return np.asarray(array)[()] if return_scalar else np.asarray(array)

    def __reduce__(self) -> Any:  # noqa: ANN401
        return Labelled.of, (np.asarray(self), self.about)

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def features_of(name: str, X: object) -> tuple[Any, Columns | None]:
    """Return the features of data, and their columns if they are a data frame, or come from a table."""
    X = as_frame(X)
    if isinstance(X, Labelled) and isinstance(X.about, Columns):
        return np.asarray(X), X.about
    if is_frame(X):
        check_samples(name, X.index, X.columns)
    columns = Columns.of(X, name)
    return (X, None) if columns is None else (columns.transform(X, name), columns)


def check_samples(where: object, rows: Sequence[object], names: Sequence[object]) -> None:
    """Warn of a table whose rows are statistics of columns, or columns themselves, and no samples."""
    if len(rows) > len(names) + len(_DESCRIBED):
        return
    if set(rows) >= _DESCRIBED or set(names) >= _DESCRIBED:
        found = "statistics of columns, as describe() makes them"
    elif len(names) > 1 and all(isinstance(name, str) for name in names) and set(rows) >= set(names):
        found = "columns, as those of correlations or distances are"
    else:
        return
    _checks.warn(f"the rows of {where} seem to be {found}, and no samples: give the table that it was made of")


def alike(name: str, X: object, columns: Columns | None, **joined: Any) -> Any:  # noqa: ANN401  # an array, or what becomes one
    """Return features as those of training data with ``columns``: of a data frame by name; arrays are features already."""
    check_order(X, **joined)
    X = as_frame(X)
    if isinstance(X, Labelled):
        if isinstance(X.about, Columns) and columns is not None and X.about.features != columns.features:
            raise ValueError(f"{name} must have the features {listed(columns.features)}; got {listed(X.about.features)}")
        return np.asarray(X) if columns is None or columns.fill is None else filled(np.asarray(X), columns.fill)
    return X if columns is None or not is_frame(X) else columns.transform(X, name)


def check_order(X: object, **columns: Any) -> None:  # noqa: ANN401  # of pandas
    """Warn of columns whose index is that of ``X`` in another order, or in part, as rows are joined by place.

    An index 0, 1, ... counts places, and needs to be no other's.
    """
    index: Any = getattr(X, "index", None)
    for name, column in columns.items():
        if not (hasattr(column, "iloc") and hasattr(X, "iloc")) or column.index.equals(index) or len(column) != len(index):
            continue
        short, own, theirs = name.partition(" ")[0], Counter(column.index), Counter(index)
        if own == theirs:
            how = "in another order"
            order = (
                f"{short}.loc[X.index] has the order of X"
                if index.is_unique
                else "reset_index(drop=True) of the whole table comes first"
            )
        elif own & theirs and not any(np.array_equal(one, np.arange(len(one))) for one in (index, column.index)):
            how, order = "for some rows only", "leave out the same rows of both"
        else:
            continue
        _checks.warn(
            f"{name} has the index of X {how}, and its rows are joined to those of X by place: {order}, and "
            f"{short}.to_numpy() says that places are meant"
        )


def complete(name: str, X: object) -> tuple[Any, Columns | None]:
    """Return :func:`features_of` data, whose missing cells, if they may be missing, become the means of the others."""
    features, columns = features_of(name, X)
    if columns is None or columns.missing == "error" or columns.fill is not None:
        return features, columns
    columns = columns.filled_by(means(features, columns))
    return filled(features, columns.fill or ()), columns


def labels(name: str, y: Any, classes: Classes | None = None) -> tuple[Any, Classes | None]:  # noqa: ANN401  # of any library
    """Return targets and their classes: those of ``category`` dtype, of a table, or text, as codes 0 .. C - 1.

    ``classes``, if given, are those of the training data, by which text is coded; numbers are codes already.
    """
    if isinstance(y, Labelled):
        own = y.about.classes if isinstance(y.about, Target) else None
        y = np.asarray(y)
        if own is None or classes is None or own == classes:
            return y, own if classes is None else classes
        y = np.array(own, object)[y]
    if is_category(y):
        if classes is None:
            plain = (bool, int, float, str)
            categories: list[object] = getattr(y, "cat", y).categories.tolist()
            classes = tuple(category if isinstance(category, plain) else str(category) for category in categories)
    elif isinstance(y, str) or _checks.dense(name, y).dtype.kind not in "OUS":
        return y, classes
    cells = np.asarray(y, object)
    absent = list(map(_names.is_missing, cells.ravel().tolist()))
    if any(absent):
        raise ValueError(f"{name} has {sum(absent)} missing of {cells.size} values, the first in row {int(np.argmax(absent))}")
    if classes is None:
        if not all(isinstance(cell, str) for cell in cells.ravel().tolist()):
            return y, None
        found = looks.look(cells.ravel().tolist())
        if found is not None or all(map(looks.is_number, cells.ravel().tolist())):
            what = found.what if found else "numbers"
            raise ValueError(
                f"{name} is text that looks like {what}, such as {cells.ravel()[0]!r}: convert it to numbers, or for classes "
                f"to pandas' category dtype, pandas.Categorical({name.split()[0]})"
            )
        classes = tuple(sorted(set(cells.ravel().tolist())))
    return codes(name, cells, classes, key=looks.label_of), classes


def codes(
    name: str,
    values: Iterable[object],
    categories: Sequence[object],
    strict: bool = True,
    key: Any = looks.text_of,  # noqa: ANN401
) -> np.ndarray:
    """Return the place of each value among ``categories``, by its text; -1, or with ``strict`` an error, if it is none."""
    place = {key(category): code for code, category in enumerate(categories)}
    cells = list(values)
    by_value: dict[tuple[type, object], int] = {}  # most values come again, and 1, 1.0 and True are one key otherwise
    for kind, value in set(zip(map(type, cells), cells, strict=True)):
        by_value[kind, value] = place.get(key(value), -1)
    found = np.array([by_value[pair] for pair in zip(map(type, cells), cells, strict=True)], int)
    if len(place) < len(categories):
        raise ValueError(f"categories of {name} must differ as text; got {listed(categories)}")
    if strict and (found < 0).any():
        row = int((found < 0).argmax())
        raise ValueError(f"{name} must be one of {listed(categories)}; in row {row} (the first is 0) it is {cells[row]!r}")
    return found


def categories_of(name: str, column: pandas.Series) -> tuple[str, ...]:
    """Return the categories of a column as text: in the order of its ``category`` dtype, otherwise sorted."""
    if is_category(column):
        found = [looks.text_of(one) for one in column.cat.categories]
        if len(set(found)) < len(found):
            raise ValueError(f"categories of {name} must differ as text; got {listed(column.cat.categories)}")
        return tuple(found)
    return tuple(sorted({looks.text_of(cell) for cell in column.dropna().astype(object).unique()}))


def numbers_of(column: pandas.Series) -> np.ndarray | None:
    """Return a column as numbers, with NaN for missing ones; None if it is none."""
    kind = column.dtype.kind
    if kind in "fiub" and isinstance(column.dtype, np.dtype):
        return np.asarray(column.to_numpy())
    if kind in "fiub":  # nullable
        if column.hasnans:
            return np.asarray(column.to_numpy(float, na_value=np.nan))
        return np.asarray(column.to_numpy(column.dtype.type))
    if kind not in "O" or getattr(column.dtype, "name", "") in ("str", "string", "category"):
        return None if column.notna().any() else np.full(len(column), np.nan)
    cells = column.where(column.notna(), np.nan).tolist()
    if any(isinstance(cell, str) or not looks.is_number(cell) for cell in cells):
        return None
    found = np.array(cells, float)
    return found


def not_numbers(where: object, columns: Mapping[str, pandas.Series], from_file: bool) -> ValueError:
    """Return the error for features that are text: what they look like, and what reads them or leaves them out."""
    faults = []
    for label, column in list(columns.items())[:5]:
        cells = column.dropna().astype(object)
        words = [not looks.is_number(cell) for cell in cells]
        texts = list(cells[words]) or [cell for cell in cells if isinstance(cell, str)]
        row = int(np.argmax([cell is texts[0] for cell in column.astype(object)]))
        found = looks.look(cells) if column.dtype.kind not in "Mm" else looks.DATES[column.dtype.kind]
        cell = f"{label!r} ({_checks.shown(texts[0])} in row {row}"
        drop = f"drop=[{label!r}]" if from_file else f"frame.drop(columns=[{label!r}])"
        category = f"categories=[{label!r}]" if from_file else f"frame.astype({{{label!r}: 'category'}})"
        different, count = len(set(map(str, cells))), len(cells)
        if found is not None:
            faults.append(f"{cell}: {found.what}, for which {looks.remedy(found, label, from_file)})")
        elif not any(words):  # of objects
            numbers = f"frame[{label!r}] = pandas.to_numeric(frame[{label!r}])"
            faults.append(f"{cell}, text that reads as a number: {numbers}, or {category} if these are categories)")
        elif not all(isinstance(one, Hashable) for one in texts):
            faults.append(f"{cell}: numpy.stack(frame[{label!r}]) makes an array of all, {drop} leaves them out)")
        elif len(texts) < len(cells) / 2:
            gone = f"na_values=[{texts[0]!r}] if it is a missing one" if from_file else "replace it"
            faults.append(f"{cell}, among {len(cells) - len(texts)} numbers: {gone})")
        elif different > 2 and different > _FEW * count:
            faults.append(f"{cell}, {different} different texts in {count} rows: {drop} leaves it out)")
        else:
            faults.append(f"{cell}: {category} if these are categories, {drop} leaves it out)")
    more = f", and {len(columns) - 5} more" if len(columns) > 5 else ""
    return ValueError(f"features must be numbers or categories; these columns of {where} are not: {'; '.join(faults)}{more}")


def missing_cells(where: object, absent: Mapping[str, int], rows: int, features: bool = True) -> ValueError:
    """Return the error for missing cells, with all columns that have some, all of them ``features`` or not."""
    counts = ", ".join(f"{label!r} ({count})" for label, count in absent.items())
    return ValueError(
        f"{where} has missing values in {counts} of {rows} rows: in load and own, also of a data frame, missing='drop' leaves "
        "these rows out"
        + (", 'mean' replaces them by means, 'indicator' adds a feature that says where they were" if features else "")
    )


def filled(features: np.ndarray, means: ArrayLike) -> np.ndarray:
    """Return features whose NaN are replaced by ``means`` (features,)."""
    return np.where(np.isnan(features), np.asarray(means, features.dtype), features) if features.dtype.kind == "f" else features


def means(X: np.ndarray, columns: Columns) -> np.ndarray:
    """Return the means (features,) of what is there; raise ``ValueError`` for a feature of which nothing is."""
    there = (~np.isnan(X)).sum(axis=0)
    if not there.all():
        name = columns.features[int(np.argmin(there))]
        raise ValueError(
            f"feature {name!r} has no value in the training part, so that there is no mean to fill in: drop its column"
        )
    return np.asarray(np.where(np.isnan(X), 0.0, X).sum(axis=0) / there)


def is_frame(value: object) -> TypeGuard[pandas.DataFrame]:
    """Return whether ``value`` is a data frame of pandas, or one like it."""
    return hasattr(value, "iloc") and hasattr(value, "columns")


def as_frame(value: Any) -> Any:  # noqa: ANN401  # of any library
    """Return a data frame of polars, or of another library with the dataframe interchange, as one of pandas; or ``value``."""
    if not hasattr(value, "__dataframe__") or is_frame(value):
        return value
    import pandas

    return pandas.api.interchange.from_dataframe(value)


def is_category(column: object) -> TypeGuard[pandas.Series]:
    """Return whether ``column`` has pandas' ``category`` dtype."""
    return getattr(getattr(column, "dtype", None), "name", None) == "category"
