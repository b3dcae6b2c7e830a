"""Features and targets that are no plain arrays: data frames, text and whole data sets, which ``consensus.tables`` reads."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import scipy.sparse as sp

from consensus import _checks

Classes: TypeAlias = tuple[Any, ...]  # of any type, as the data have them


class Columns(Protocol):
    """The part of a table that shards know, which their features come from: see :class:`consensus.data.Columns`."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features."""

    def transform(self, frame: object, name: str = "frame") -> np.ndarray:
        """Return the features (samples, features) of a data frame with these columns."""

    def to_dict(self) -> dict[str, Any]:
        """Return what makes such columns again."""


class Dataset(Protocol):
    """Features and target with what is known of them: see :class:`consensus.datasets.Dataset`."""

    @property
    def X(self) -> np.ndarray:
        """Features (samples, features)."""

    @property
    def y(self) -> np.ndarray:
        """Target (samples,) or (samples, outputs)."""


def _plain(value: object) -> bool:
    """Return whether a value has no columns and is no whole data set: an array, a list or a sparse matrix."""
    return type(value) in (np.ndarray, np.memmap, list, tuple) or sp.issparse(value)


def unpacked(X: Any, y: Any, **given: Any) -> tuple[Any, ...]:  # noqa: ANN401  # of any library
    """Return X and y, and for each of ``given`` what the data set ``X`` has, unless it is given."""
    if _plain(X) and y is not None:
        return X, y, *given.values()
    from consensus.tables import dataset

    return dataset.unpacked(X, y, **given)


def complete(name: str, X: object) -> tuple[Any, Columns | None]:
    """Return features, and their columns if they are a data frame or come from a table; missing cells become means."""
    if _plain(X):
        return X, None
    from consensus.tables import frames

    return frames.complete(name, X)


def alike(name: str, X: object, columns: Columns | None, **joined: Any) -> Any:  # noqa: ANN401  # an array, or what becomes one
    """Return features as those of training data with ``columns``: of a data frame by name; arrays are features already.

    ``joined`` are those whose rows are joined to theirs by place; a warning says if their index has another order.
    """
    if _plain(X):
        return X
    from consensus.tables import frames

    return frames.alike(name, X, cast("frames.Columns | None", columns), **joined)


def coded(name: str, y: Any, classes: Classes | None = None) -> tuple[Any, Classes | None]:  # noqa: ANN401  # of any library
    """Return targets and their classes: text, and what a table has as such, as codes 0 .. C - 1 of ``classes``, if given."""
    if _plain(y) and _checks.dense(name, y).dtype.kind not in "OUS":
        return y, classes
    from consensus.tables import frames

    return frames.labels(name, y, classes)
