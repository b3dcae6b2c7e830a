"""Data frames as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks

if TYPE_CHECKING:
    import pandas

Classes: TypeAlias = tuple[Any, ...]  # of any type, as the data have them


@dataclass(frozen=True)
class Columns:
    """The columns of a data frame, which become features.

    Numbers and booleans are one feature each. A column of pandas' ``category`` dtype becomes a feature for each category: one
    in rows of the category, and zero elsewhere.

    Parameters
    ----------
    names : tuple of str
        The frame's columns.
    categories : dict of str to tuple of str
        The categories, as text, of each column that has some.

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
            If two columns have the same name.
        """
        if not is_frame(frame):
            return None
        names = tuple(map(str, frame.columns))
        twice = [label for label in dict.fromkeys(names) if names.count(label) > 1]
        if twice:
            raise ValueError(f"columns of {name} must have names of their own; got more than one of {_listed(twice)}")
        found = zip(names, (column for _, column in frame.items()), strict=True)
        categories = {label: tuple(map(str, column.cat.categories)) for label, column in found if is_category(column)}
        return cls(names, categories)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features; that of a category is like ``town_Rome``."""
        parts = [[f"{label}_{category}" for category in self.categories.get(label, ())] or [label] for label in self.names]
        return tuple(name for part in parts for name in part)

    def transform(self, frame: pandas.DataFrame, name: str = "frame") -> np.ndarray:
        """Return the features of a data frame with these columns, in any order.

        Parameters
        ----------
        frame : pandas.DataFrame
            The data frame.
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
            If a column is missing or unknown, is neither numbers nor categories, or has an unknown category.
        """
        if not is_frame(frame):
            raise TypeError(f"{name} must be a data frame with the columns {_listed(self.names)}; got {_checks.shown(frame)}")
        given = list(map(str, frame.columns))
        if sorted(given) != sorted(self.names):
            missing, odd = (_listed(sorted({*a} - {*b})) or "none" for a, b in ((self.names, given), (given, self.names)))
            raise ValueError(f"{name} must have the columns {_listed(self.names)}; missing: {missing}; not known: {odd}")
        frame = frame.iloc[:, [given.index(label) for label in self.names]]
        numbers = _checks.array(name, frame.iloc[:, [label not in self.categories for label in self.names]])
        if not self.categories:
            return numbers
        single = iter(numbers.T[:, :, None])
        dtype = np.float32 if numbers.size and numbers.dtype == np.float32 else np.float64
        columns = (frame.iloc[:, position] for position in range(len(given)))
        parts = [
            self._one_hot(name, label, column) if label in self.categories else next(single)
            for label, column in zip(self.names, columns, strict=True)
        ]
        return np.concatenate(parts, axis=1, dtype=dtype, casting="unsafe")

    def _one_hot(self, name: str, label: str, column: pandas.Series) -> np.ndarray:
        categories = self.categories[label]
        one_hot: np.ndarray = np.eye(len(categories))[codes(f"column {label!r} of {name}", column.astype(object), categories)]
        return one_hot


def labels(name: str, y: ArrayLike, classes: Classes | None = None) -> tuple[ArrayLike, Classes | None]:
    """Return targets and their classes: those of ``category`` dtype, or text of known ``classes``, as codes 0 .. C - 1."""
    if not is_category(y) and (classes is None or _checks.dense(name, y).dtype.kind not in "OUS"):
        return y, classes
    if classes is None:
        plain = (bool, int, float, str)
        categories: list[object] = _categories(y).tolist()
        classes = tuple(category if isinstance(category, plain) else str(category) for category in categories)
    return codes(name, np.asarray(y, object), tuple(map(str, classes))), classes


def _categories(column: pandas.Series | pandas.Categorical) -> pandas.Index:
    return getattr(column, "cat", column).categories


def codes(name: str, values: Iterable[object], categories: tuple[str, ...]) -> np.ndarray:
    """Return the place of each value among ``categories``, by its text; raise ``ValueError`` for a value that is none."""
    place = {category: code for code, category in enumerate(categories)}
    found = np.array([place.get(str(value), -1) for value in values], int)
    if len(place) < len(categories):
        raise ValueError(f"categories of {name} must differ as text; got {_listed(categories)}")
    if (found < 0).any():
        row = int((found < 0).argmax())
        value = list(values)[row]
        raise ValueError(f"{name} must be one of {_listed(categories)}; in row {row} (the first is 0) it is {value!r}")
    return found


def is_frame(value: object) -> TypeGuard[pandas.DataFrame]:
    """Return whether ``value`` is a data frame of pandas, or one like it."""
    return hasattr(value, "iloc") and hasattr(value, "columns")


def is_category(column: object) -> TypeGuard[pandas.Series]:
    """Return whether ``column`` has pandas' ``category`` dtype."""
    return getattr(getattr(column, "dtype", None), "name", None) == "category"


def _listed(names: Iterable[str], most: int = 10) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:most]) + (f", ... ({len(shown)} in all)" if len(shown) > most else "")
