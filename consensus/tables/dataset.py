"""Features and target with what is known of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from consensus import _checks
from consensus.tables.frames import Classes, Columns, Labelled, Target, check_order


@dataclass(frozen=True, eq=False)
class Dataset:
    """Features and target; ``X, y = dataset`` unpacks it.

    :func:`consensus.partition`, :func:`split` and :func:`folds` take it whole. Its arrays know their columns and classes, also
    when they are unpacked or rows of them are selected.

    Parameters
    ----------
    X : ndarray (samples, features)
        Features.
    y : ndarray (samples,) or (samples, outputs)
        Target: float64 numbers, or int codes 0 .. C - 1 of the classes.
    classes : tuple or None
        The C classes behind the codes; None if the target is numbers.
    columns : Columns or None
        The columns of a table; ``columns.transform(frame)`` makes such features of a data frame.
    target : tuple of str
        The names of the target's columns.
    weights : ndarray (samples,) or None
        The weights of rows.
    groups : ndarray (samples,) or None
        The groups of rows, as text.
    time : ndarray (samples,) or None
        The times of rows.

    Raises
    ------
    ValueError
        When it is unpacked although it has weights, groups or times, which would be lost.

    Examples
    --------
    >>> import consensus
    >>> iris = consensus.datasets.load("iris")
    >>> X, y = iris
    >>> X.shape, y.dtype.kind, iris.classification, iris.classes
    ((150, 4), 'i', True, ('setosa', 'versicolor', 'virginica'))
    >>> consensus.partition(iris, agents=3).classes
    ('setosa', 'versicolor', 'virginica')
    """

    X: np.ndarray
    y: np.ndarray
    classes: Classes | None = None
    columns: Columns | None = None
    target: tuple[str, ...] = ()
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    time: np.ndarray | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.target, tuple) or not all(isinstance(name, str) for name in self.target):
            raise TypeError(f"target must be a tuple of names of columns, such as ('sales',); got {_checks.shown(self.target)}")
        object.__setattr__(self, "X", Labelled.of(self.X, self.columns))
        about = Target(self.target, self.classes) if self.target or self.classes is not None else None
        object.__setattr__(self, "y", Labelled.of(self.y, about))

    @property
    def classification(self) -> bool:
        """True if the target is classes."""
        return self.classes is not None

    @property
    def sample_weight(self) -> np.ndarray | None:
        """The weights of rows, as :func:`consensus.partition` calls them."""
        return self.weights

    def __getitem__(self, index: int) -> np.ndarray:
        return (self.X, self.y)[index]

    def __iter__(self) -> Iterator[np.ndarray]:
        lost = [name for name in ("weights", "groups", "time") if getattr(self, name) is not None]
        if lost:
            raise ValueError(
                f"a data set with {' and '.join(lost)} loses them when it is unpacked: give it whole, as split(data), "
                "partition(data, ...) or folds(data, k=5), or use data.X and data.y"
            )
        return iter((self.X, self.y))


def unpacked(X: Any, y: Any, **given: Any) -> tuple[Any, ...]:  # noqa: ANN401  # of any library
    """Return X and y, and for each of ``given`` what the data set ``X`` has, unless it is given."""
    if not isinstance(X, Dataset):
        if y is None:
            raise TypeError(
                f"y must be given, or a whole data set, as consensus.datasets.load returns; got {_checks.shown(X)}{_remedy(X)}"
            )
        check_order(X, y=y, **given)
        return (X, y, *given.values())
    if y is not None:
        raise TypeError(f"y must be left out if a whole data set is given; got {_checks.shown(y)}")
    return (X.X, X.y, *(getattr(X, name) if value is None else value for name, value in given.items()))


def _remedy(X: Any) -> str:  # noqa: ANN401  # of any library
    """Return what to give instead of a file's name, or of a data set or a loader of PyTorch."""
    if isinstance(X, str | os.PathLike):
        return f": consensus.datasets.load({str(X)!r}, target=...) returns one"
    if hasattr(X, "batch_size") and hasattr(X, "dataset"):
        return ": give its dataset's arrays X and y, as agents draw batches themselves, by consensus.Minibatches(32)"
    if hasattr(X, "tensors"):
        return ": give X, y = dataset.tensors"
    if any(kind.__name__ == "Dataset" for one in (X if isinstance(X, list) else [X])[:1] for kind in type(one).__mro__):
        return ": consensus.data.LazyShards.from_list takes such data sets, one for each agent"
    return ""
