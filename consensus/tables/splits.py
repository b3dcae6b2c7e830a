"""Training and test parts of data, standardised by the training part; scikit-learn, which imports slowly, when it is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.tables.cuts import apart, later
from consensus.tables.dataset import Dataset
from consensus.tables.frames import Classes, Columns, Labelled, Target, filled, means
from consensus.tables.pipeline import Pipeline
from consensus.tables.whole_data import WholeData, whole_data

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
        The classes of targets that are text, of pandas' ``category`` dtype or from a file, whose codes are in ``y`` and
        ``y_test``.
    groups, groups_test : ndarray (samples,) or None
        The groups of the samples of each part, for ``partition(parts.X, parts.y, groups=parts.groups)``.
    weights, weights_test : ndarray (samples,) or None
        The weights of the samples, for ``partition(parts.X, parts.y, sample_weight=parts.weights, ...)``.

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
    weights: np.ndarray | None = None
    weights_test: np.ndarray | None = None

    @property
    def pipeline(self) -> Pipeline:
        """The map from new tables to inputs, and from outputs to predictions, for ``result.predictor``.

        The classes of whole numbers that are no categories are 0, 1, ... up to the largest.
        """
        shift, spread = (0.0, 1.0) if self.y_scaler is None else (self.y_scaler.mean_, self.y_scaler.scale_)
        classes = self.classes
        if self.y_scaler is None and classes is None and self.y.dtype.kind in "iub":
            classes = tuple(range(int(max(self.y.max(), self.y_test.max())) + 1))
        names = self.y.about.names if isinstance(self.y, Labelled) and isinstance(self.y.about, Target) else ()
        target = names[0] if len(names) == 1 else names or None
        scale = self.X_scaler.scale_
        mean = self.X_scaler.mean_ if self.X_scaler.with_mean else np.zeros_like(scale)
        return Pipeline(self.columns, mean, scale, target, shift, spread, classes)

    def __getitem__(self, index: int) -> np.ndarray:
        return (self.X, self.y, self.X_test, self.y_test)[index]

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.X, self.y, self.X_test, self.y_test))

    def __len__(self) -> int:
        return 4


def split(
    X: ArrayLike | Dataset,
    y: ArrayLike | None = None,
    *,
    test_size: float = 0.2,
    seed: Seed = 0,
    classification: bool | None = None,
    groups: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    time: ArrayLike | None = None,
    by: Literal["rows", "groups", "time"] | None = None,
) -> Split:
    """Split ``(X, y)`` into a training and a test part, and standardise.

    Features get mean zero and variance one on the training part (constant ones become zero), and so do the targets unless
    they are classes. Sparse features are divided by their standard deviations and keep their means, as by scikit-learn's
    ``StandardScaler(with_mean=False)``: without a mean they would be dense. In classification parts that are drawn by rows keep
    the proportions of the classes.

    Parameters
    ----------
    X : Dataset, or array_like (samples, features)
        A whole data set, with its columns, classes, weights, groups and times, and no ``y``; or features; a data frame may have
        the columns that :func:`consensus.partition` takes.
    y : array_like (samples,) or (samples, outputs)
        Targets.
    test_size : float
        Share of the samples in the test part, between 0 and 1.
    seed : int
        Seed of the draw.
    classification : bool, optional
        Whether the targets are classes; by default they are if they are text, of ``category`` dtype, or classes of a file.
    groups : array_like (samples,), optional
        The group of each sample, as :func:`consensus.partition` takes them.
    weights : array_like (samples,), optional
        The weight of each sample; means and variances do not depend on them.
    time : array_like (samples,), optional
        The time of each sample, as numbers or dates.
    by : {"rows", "groups", "time"}, optional
        Whether the test part is drawn by rows, or whole groups, or is the last one in time; by default the last one if there
        are times, otherwise rows.

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

    data = whole_data(X, y, classification, groups, weights, time)
    test_size = _checks.number("test_size", test_size, above=0, below=1)
    _checks.choice("by", by, (None, "rows", "groups", "time"))
    by = ("rows" if data.time is None else "time") if by is None else by
    if by != "rows" and getattr(data, by) is None:
        raise ValueError(f"by={by!r} needs {by}=, one for each row of X, or a data set loaded with {by}=")
    if by == "time" and data.time is not None:
        return _standardised(data, *later(data.time, test_size))
    if by == "groups" and data.groups is not None:
        return _standardised(data, *apart(data.groups, test_size, np.random.default_rng(_state(seed))), whole_groups=True)
    stratify = data.y if data.classification else None
    rows = np.arange(len(data.y))
    return _standardised(data, *train_test_split(rows, test_size=test_size, random_state=_state(seed), stratify=stratify))


def folds(
    X: ArrayLike | Dataset,
    y: ArrayLike | None = None,
    k: int = 5,
    seed: Seed = 0,
    classification: bool | None = None,
    groups: ArrayLike | None = None,
) -> Iterator[Split]:
    """Cut ``(X, y)`` at random into k folds for cross-validation: each is the test part once.

    Every fold is standardised by its own training part, as in :func:`split`. In classification all folds keep the
    proportions of the classes.

    Parameters
    ----------
    X : Dataset, or array_like (samples, features)
        As for :func:`split`.
    y : array_like (samples,) or (samples, outputs)
        Targets.
    k : int
        Number of folds: at least 2, at most the number of samples, in classification that of the smallest class.
    seed : int
        Seed of the shuffle.
    classification : bool, optional
        Whether the targets are classes, as in :func:`split`.
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
    most, what = len(y), "samples"
    if data.classification:
        classes, sizes = np.unique(y, return_counts=True)
        most, what = sizes.min(), f"samples of class {classes[sizes.argmin()]}, the smallest"
    if k > most:
        raise ValueError(f"k must be at most {most}, the number of {what}; got {k}")
    cuts = (StratifiedKFold if data.classification else KFold)(k, shuffle=True, random_state=_state(seed)).split(X, y)
    return (_standardised(data, train, test) for train, test in cuts)


def _state(seed: Seed) -> Seed:
    """Return ``seed`` as scikit-learn takes it."""
    if seed is None or isinstance(seed, np.random.RandomState):
        return seed
    return _checks.count("seed", seed, least=0, most=2**32 - 1)


def _standardised(data: WholeData, train: np.ndarray, test: np.ndarray, whole_groups: bool = False) -> Split:
    from sklearn.preprocessing import StandardScaler

    X, y, columns = data.X, data.y, data.columns
    lost = [] if data.groups is None or whole_groups else np.setdiff1d(data.groups[test], data.groups[train]).tolist()
    if lost:
        raise ValueError(
            f"every group must have a sample in the training part; {lost[0]!r} has none: take another seed, a smaller test "
            "part, or by='groups' for a test part of whole groups"
        )
    if columns is not None and columns.fill is None and columns.missing == "mean":
        columns = columns.filled_by(means(X[train], columns))
        X = filled(X, columns.fill or ())
    X_scaler, y_scaler = StandardScaler(with_mean=not sp.issparse(X)).fit(X[train]), None
    targets, targets_test = y[train], y[test]
    if not data.classification:
        outputs = y.reshape(len(y), -1)
        y_scaler = StandardScaler().fit(outputs[train])
        targets, targets_test = (y_scaler.transform(outputs[rows]).reshape(-1, *y.shape[1:]) for rows in (train, test))
    about = data.target if any(data.target) else None
    X, X_test = X_scaler.transform(X[train]), X_scaler.transform(X[test])
    parts = (X, Labelled.of(targets, about), X_test, Labelled.of(targets_test, about), X_scaler, y_scaler)
    each = [None if own is None else own[rows] for own in (data.groups, data.weights) for rows in (train, test)]
    return Split(*parts, columns, data.target.classes, *each)
