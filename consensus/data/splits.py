"""Training and test parts of data, standardised by the training part; scikit-learn, which imports slowly, when it is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.data.frames import Classes, Columns
from consensus.data.pipeline import Pipeline
from consensus.data.whole_data import WholeData, whole_data

if TYPE_CHECKING:
    from sklearn.preprocessing import StandardScaler

Seed: TypeAlias = int | np.random.RandomState | None  # as scikit-learn takes it


@dataclass(frozen=True, eq=False)
class Split:
    """A data set in two parts, standardised by the training part; ``X, y, X_test, y_test = parts`` unpacks it.

    Parameters
    ----------
    X, y : ndarray (samples, features), and (samples,) or (samples, outputs)
        The training part.
    X_test, y_test : ndarray
        The test part.
    X_scaler : sklearn.preprocessing.StandardScaler
        The fitted scaler of the features: a model takes ``parts.X_scaler.transform(new)``.
    y_scaler : sklearn.preprocessing.StandardScaler or None
        The fitted scaler of targets that are not classes: ``parts.y_scaler.inverse_transform(outputs)`` is in original units,
        for outputs (samples, outputs) of a model.
    columns : Columns or None
        The columns of a data frame; ``parts.columns.transform(frame)`` are features before standardisation.
    classes : tuple or None
        The classes of targets of pandas' ``category`` dtype, whose codes are in ``y`` and ``y_test``.
    groups, groups_test : ndarray (samples,) or None
        The groups of the samples of each part, for ``partition(parts.X, parts.y, groups=parts.groups)``.

    Examples
    --------
    >>> from consensus.datasets import load
    >>> import numpy as np
    >>> from consensus.datasets import split
    >>> X, y = load("diabetes")
    >>> parts = split(X, y)
    >>> bool(np.allclose(parts.y_scaler.inverse_transform(parts.y_test[:, None])[0], 321))
    True
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    X_scaler: StandardScaler
    y_scaler: StandardScaler | None = None
    columns: Columns | None = None
    classes: Classes | None = None
    groups: np.ndarray | None = None
    groups_test: np.ndarray | None = None

    @property
    def pipeline(self) -> Pipeline:
        """What turns new tables into inputs, and outputs into predictions, for ``result.predictor``.

        The classes of whole numbers that are no categories are 0, 1, ... up to the largest.
        """
        shift, spread = (0.0, 1.0) if self.y_scaler is None else (self.y_scaler.mean_, self.y_scaler.scale_)
        classes = self.classes
        if self.y_scaler is None and classes is None and self.y.dtype.kind in "iub":
            classes = tuple(range(int(max(self.y.max(), self.y_test.max())) + 1))
        return Pipeline(self.columns, self.X_scaler.mean_, self.X_scaler.scale_, None, shift, spread, classes)

    def __getitem__(self, index: int) -> np.ndarray:
        return (self.X, self.y, self.X_test, self.y_test)[index]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.X, self.y, self.X_test, self.y_test))

    def __len__(self) -> int:
        return 4


def split(
    X: ArrayLike,
    y: ArrayLike,
    *,
    test_size: float = 0.2,
    seed: Seed = 0,
    classification: bool = False,
    groups: ArrayLike | None = None,
) -> Split:
    """Split ``(X, y)`` at random into a training and a test part, and standardise.

    Features get mean zero and variance one on the training part (constant ones become zero), and so do the targets unless
    they are classes. In classification the parts keep the proportions of the classes.

    Parameters
    ----------
    X : array_like (samples, features)
        Features; a data frame may have the columns that :func:`consensus.partition` takes.
    y : array_like (samples,) or (samples, outputs)
        Targets.
    test_size : float
        Share of the samples in the test part, between 0 and 1.
    seed : int
        Seed of the shuffle.
    classification : bool
        Whether the targets are classes.
    groups : array_like (samples,), optional
        The group of each sample, as :func:`consensus.partition` takes them. The split does not depend on them.

    Returns
    -------
    Split
        Both parts, with the fitted scalers.

    Raises
    ------
    ValueError
        If shapes disagree, ``test_size`` is out of range, a class or part would be too small, or a group would have no sample
        in the training part.

    Examples
    --------
    >>> import consensus
    >>> from consensus.datasets import load
    >>> from consensus.datasets import split
    >>> data = load("diabetes")
    >>> parts = split(*data, classification=data.classification)
    >>> parts.X.shape, parts.X_test.shape
    ((353, 10), (89, 10))
    >>> parts = split(*data, groups=["Oslo", "Rome"] * 221)
    >>> consensus.partition(parts.X, parts.y, groups=parts.groups).sizes
    array([172, 181])
    """
    from sklearn.model_selection import train_test_split

    data = whole_data(X, y, classification, groups)
    X, y = data.X, data.y
    test_size = _checks.number("test_size", test_size, above=0, below=1)
    stratify = y if classification else None
    train, test = train_test_split(np.arange(len(X)), test_size=test_size, random_state=_state(seed), stratify=stratify)
    return _standardised(data, train, test)


def folds(
    X: ArrayLike, y: ArrayLike, k: int, seed: Seed = 0, classification: bool = False, groups: ArrayLike | None = None
) -> Iterator[Split]:
    """Cut ``(X, y)`` at random into k folds for cross-validation: each is the test part once.

    Every fold is standardised by its own training part, as in :func:`split`. In classification all folds keep the
    proportions of the classes.

    Parameters
    ----------
    X : array_like (samples, features)
        Features; a data frame may have the columns that :func:`consensus.partition` takes.
    y : array_like (samples,) or (samples, outputs)
        Targets.
    k : int
        Number of folds: at least 2, at most the number of samples, in classification that of the smallest class.
    seed : int
        Seed of the shuffle.
    classification : bool
        Whether the targets are classes.
    groups : array_like (samples,), optional
        The group of each sample, as in :func:`split`.

    Returns
    -------
    iterator of Split
        The folds, copied from the data one at a time.

    Raises
    ------
    ValueError
        If shapes disagree or ``k`` is out of range.

    Examples
    --------
    >>> from consensus.datasets import load
    >>> from consensus.datasets import folds
    >>> data = load("iris")
    >>> [len(fold.X_test) for fold in folds(*data, k=4, classification=data.classification)]
    [38, 38, 37, 37]
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    data = whole_data(X, y, classification, groups)
    X, y = data.X, data.y
    k = _checks.count("k", k, least=2)
    most, what = len(X), "samples"
    if classification:
        classes, sizes = np.unique(y, return_counts=True)
        most, what = sizes.min(), f"samples of class {classes[sizes.argmin()]}, the smallest"
    if k > most:
        raise ValueError(f"k must be at most {most}, the number of {what}; got {k}")
    cuts = (StratifiedKFold if classification else KFold)(k, shuffle=True, random_state=_state(seed)).split(X, y)
    return (_standardised(data, train, test) for train, test in cuts)


def _state(seed: Seed) -> Seed:
    """Return ``seed`` as scikit-learn takes it."""
    if seed is None or isinstance(seed, np.random.RandomState):
        return seed
    return _checks.count("seed", seed, least=0, most=2**32 - 1)


def _standardised(data: WholeData, train: np.ndarray, test: np.ndarray) -> Split:
    from sklearn.preprocessing import StandardScaler

    X, y, groups, groups_test = data.X, data.y, None, None
    if data.groups is not None:
        groups, groups_test = data.groups[train], data.groups[test]
        lost = np.setdiff1d(groups_test, groups)
        if len(lost):
            raise ValueError(
                f"every group must have a sample in the training part; {lost.tolist()[0]!r} has none: take another seed, a "
                "smaller test part, or leave the group out"
            )
    X_scaler, y_scaler = StandardScaler().fit(X[train]), None
    targets, targets_test = y[train], y[test]
    if not data.classification:
        columns = y.reshape(len(y), -1)
        y_scaler = StandardScaler().fit(columns[train])
        targets, targets_test = (y_scaler.transform(columns[rows]).reshape(-1, *y.shape[1:]) for rows in (train, test))
    X, X_test = X_scaler.transform(X[train]), X_scaler.transform(X[test])
    return Split(X, targets, X_test, targets_test, X_scaler, y_scaler, data.columns, data.classes, groups, groups_test)
