"""Data frames as numbers, and how they became that."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from consensus import _checks


@dataclass(frozen=True)
class Columns:
    """The columns of a data frame, and how they become features.

    Numbers and booleans are one feature each. A column of pandas' ``category`` dtype becomes a feature for every category,
    one where the row is of it and zero elsewhere.

    Attributes
    ----------
    names : tuple of str
        The frame's columns.
    categories : dict of str to tuple of str
        Those of the columns that have some, as text.

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
    def of(cls, frame: Any, name: str = "frame") -> "Columns | None":
        """Those of ``frame``; None if it is no data frame. Raises ``ValueError`` if a column's name comes twice."""
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
        """The names of the features: ``town_Rome`` is that of a category."""
        parts = [[f"{label}_{category}" for category in self.categories.get(label, ())] or [label] for label in self.names]
        return tuple(name for part in parts for name in part)

    def transform(self, frame: Any, name: str = "frame") -> np.ndarray:
        """The features (samples, features) of a data frame with these columns, in whatever order.

        Parameters
        ----------
        frame : pandas.DataFrame
        name : str
            What errors call it.

        Returns
        -------
        ndarray (samples, features)

        Raises
        ------
        TypeError
            If it is no data frame.
        ValueError
            If a column is missing or not known, is neither numbers nor categories, or has a category that is not known.
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

    def _one_hot(self, name, label, column):
        categories = self.categories[label]
        return np.eye(len(categories))[codes(f"column {label!r} of {name}", column.astype(object), categories)]


def labels(name: str, y: Any, classes: tuple | None = None) -> tuple[Any, tuple | None]:
    """Targets and their classes: those of pandas' ``category`` dtype, or words of known ``classes``, as codes 0 .. C - 1."""
    if not is_category(y) and (classes is None or _checks.dense(name, y).dtype.kind not in "OUS"):
        return y, classes
    if classes is None:
        plain = (bool, int, float, str)
        categories = getattr(y, "cat", y).categories.tolist()
        classes = tuple(category if isinstance(category, plain) else str(category) for category in categories)
    return codes(name, np.asarray(y, object), tuple(map(str, classes))), classes


def codes(name: str, values: Any, categories: tuple[str, ...]) -> np.ndarray:
    """The place of every value among ``categories``, by its text; raise ``ValueError`` where it is none of them."""
    place = {category: code for code, category in enumerate(categories)}
    found = np.array([place.get(str(value), -1) for value in values], int)
    if len(place) < len(categories):
        raise ValueError(f"categories of {name} must differ as text; got {_listed(categories)}")
    if (found < 0).any():
        row = int((found < 0).argmax())
        value = list(values)[row]
        raise ValueError(f"{name} must be one of {_listed(categories)}; in row {row} (the first is 0) it is {value!r}")
    return found


def is_frame(value: Any) -> bool:
    """Whether it is a data frame of pandas, or one like it."""
    return hasattr(value, "iloc") and hasattr(value, "columns")


def is_category(column: Any) -> bool:
    """Whether it is a column of pandas' ``category`` dtype."""
    return getattr(getattr(column, "dtype", None), "name", None) == "category"


def _listed(names, most=10):
    names = [repr(name) for name in names]
    return ", ".join(names[:most]) + (f", ... ({len(names)} in all)" if len(names) > most else "")
