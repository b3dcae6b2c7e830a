"""Data in training and test parts, standardised by the training part alone.

scikit-learn is imported where it is used: it takes longer than all the rest, and workers have no use for it.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks

Seed: TypeAlias = int | np.random.RandomState | None  # as scikit-learn takes it


class Split(NamedTuple):
    """A data set in two parts, standardised by the training part."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def split(X: ArrayLike, y: ArrayLike, *, test_size: float = 0.2, seed: Seed = 0, classification: bool = False) -> Split:
    """Split ``(X, y)`` at random into a training and a test part, and standardise.

    Features get mean zero and variance one on the training part (constant ones become zero), and so do the targets unless
    they are classes. In classification the parts keep the proportions of the classes.

    Parameters
    ----------
    X : array_like (samples, features)
    y : array_like (samples,) or (samples, outputs)
    test_size : float
        The share of the samples that goes to the test part, between 0 and 1.
    seed : int
        Of the shuffle.
    classification : bool
        Whether the targets are classes.

    Returns
    -------
    Split

    Raises
    ------
    ValueError
        If shapes disagree, ``test_size`` is out of range, or a class or part would be too small.

    Examples
    --------
    >>> from consensus.datasets import load
    >>> data = load("diabetes")
    >>> parts = split(*data, classification=data.classification)
    >>> parts.X.shape, parts.X_test.shape
    ((353, 10), (89, 10))
    """
    from sklearn.model_selection import train_test_split

    X, y = _samples(X, y, classification)
    test_size = _checks.number("test_size", test_size, above=0, below=1)
    stratify = y if classification else None
    train, test = train_test_split(np.arange(len(X)), test_size=test_size, random_state=_state(seed), stratify=stratify)
    return _standardised(X, y, train, test, classification)


def folds(X: ArrayLike, y: ArrayLike, k: int, seed: Seed = 0, classification: bool = False) -> Iterator[Split]:
    """Cut ``(X, y)`` at random into k folds for cross-validation: each is the test part once.

    Every fold is standardised by its own training part, as in :func:`split`. In classification all folds keep the
    proportions of the classes.

    Parameters
    ----------
    X : array_like (samples, features)
    y : array_like (samples,) or (samples, outputs)
    k : int
        How many folds: at least 2, at most the number of samples; in classification at most the size of the smallest
        class, so that it is in every fold.
    seed : int
        Of the shuffle.
    classification : bool
        Whether the targets are classes.

    Returns
    -------
    iterator of Split
        A fold is copied out of the data only when its turn comes.

    Raises
    ------
    ValueError
        If shapes disagree or ``k`` is out of range.

    Examples
    --------
    >>> from consensus.datasets import load
    >>> data = load("iris")
    >>> [len(fold.X_test) for fold in folds(*data, k=4, classification=data.classification)]
    [38, 38, 37, 37]
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    X, y = _samples(X, y, classification)
    k = _checks.count("k", k, least=2)
    most, what = len(X), "samples"
    if classification:
        classes, sizes = np.unique(y, return_counts=True)
        most, what = sizes.min(), f"samples of class {classes[sizes.argmin()]}, the smallest"
    if k > most:
        raise ValueError(f"k must be at most {most}, the number of {what}; got {k}")
    cuts = (StratifiedKFold if classification else KFold)(k, shuffle=True, random_state=_state(seed)).split(X, y)
    return (_standardised(X, y, train, test, classification) for train, test in cuts)


def _state(seed):
    """``seed`` as scikit-learn takes it."""
    if seed is None or isinstance(seed, np.random.RandomState):
        return seed
    return _checks.count("seed", seed, least=0, most=2**32 - 1)


def _samples(X: ArrayLike, y: ArrayLike, classification: bool) -> tuple[np.ndarray, np.ndarray]:
    classification = _checks.flag("classification", classification)
    X, y = _checks.array("X", X), _checks.dense("y", y) if classification else _checks.array("y", y)
    if X.ndim != 2 or y.ndim not in (1, 2) or len(X) != len(y):
        raise ValueError(
            f"X must have shape (samples, features), and y (samples,) or (samples, outputs); got {X.shape} and {y.shape}"
        )
    return X, y


def _standardised(X, y, train, test, classification):
    from sklearn.preprocessing import StandardScaler

    def scaled(values):
        scaler = StandardScaler().fit(values[train])
        return scaler.transform(values[train]), scaler.transform(values[test])

    X, X_test = scaled(X)
    if classification:
        return Split(X, y[train], X_test, y[test])
    targets, targets_test = scaled(y.reshape(len(y), -1))
    return Split(X, targets.reshape(-1, *y.shape[1:]), X_test, targets_test.reshape(-1, *y.shape[1:]))
