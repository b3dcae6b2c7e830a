"""Training and test parts."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from consensus import datasets
from consensus.datasets import folds, split
from consensus.tables.cuts import apart, later

CLASSES = np.array([2] * 6 + [7] * 3)


def numbered(samples):
    """Data whose second feature is the sample's number, which standardised features still show."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(5, 3, samples), np.arange(samples)]), rng.normal(-2, 7, samples)


def assert_standardised(parts, X, y, train, test):
    """Both parts have the mean and the deviation of the training part removed."""
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    for found, rows in ((parts.X, train), (parts.X_test, test)):
        np.testing.assert_allclose(found, (X[rows] - mean) / deviation, atol=1e-13)
    for found, rows in ((parts.y, train), (parts.y_test, test)):
        np.testing.assert_allclose(found, (y[rows] - y[train].mean(axis=0)) / y[train].std(axis=0), atol=1e-13)


def test_split_standardises_by_the_training_part_alone():
    X, y = numbered(50)
    parts, again, other = (split(X, y, test_size=0.3, seed=seed) for seed in (3, 3, 4))
    # The order of the second feature in both parts together gives the rows.
    order = np.argsort(np.argsort(np.concatenate([parts.X[:, 1], parts.X_test[:, 1]])))
    assert len(parts.X_test) == 15
    assert_standardised(parts, X, y, order[:35], order[35:])
    np.testing.assert_array_equal(parts.X, again.X)
    assert not np.array_equal(parts.X, other.X)


def test_classes_keep_their_labels_and_proportions():
    X, y = datasets.load("digits")
    parts = split(X, y, seed=0, classification=True)
    assert set(np.unique(parts.y)) == set(range(10))
    share, whole = np.bincount(parts.y_test) / len(parts.y_test), np.bincount(y) / len(y)
    np.testing.assert_allclose(share, whole, atol=2 / len(parts.y_test))
    assert np.isfinite(parts.X).all()  # digits has constant features


def test_several_outputs_and_single_precision():
    X, y = numbered(40)
    parts = split(X.astype(np.float32), np.column_stack([y, y**2]))
    assert parts.X.dtype == parts.X_test.dtype == np.float32
    assert parts.y.shape == (32, 2)
    np.testing.assert_allclose(parts.y.std(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("k", [2, 5, 23])
def test_folds_are_scikit_learns_standardised_by_their_own_training_part(k):
    X, y = numbered(23)
    reference = KFold(k, shuffle=True, random_state=4).split(X)
    for fold, (train, test) in zip(folds(X, y, k, seed=4), reference, strict=True):
        assert_standardised(fold, X, y, train, test)
    first, again, other = (next(folds(X, y, k, seed=seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X_test, again.X_test)
    assert not np.array_equal(first.X_test, other.X_test)


def test_folds_of_classes_keep_labels_and_proportions():
    X, y = datasets.load("wine_cultivars")
    reference = StratifiedKFold(6, shuffle=True, random_state=2).split(X, y)
    for fold, (train, test) in zip(folds(X, y, 6, seed=2, classification=True), reference, strict=True):
        np.testing.assert_array_equal(fold.y, y[train])
        np.testing.assert_array_equal(fold.y_test, y[test])
    assert len(list(folds(np.eye(9), CLASSES, 3, classification=True))) == 3


K, SHAPES = "k must be a whole number >= 2; got ", r"X must have shape \(samples, features\), and y .*; got \("


@pytest.mark.parametrize(
    ("make", "match"),
    [
        *((lambda size=size: split(np.eye(4), np.arange(4.0), test_size=size), "test_size must be a finite number > 0 and < 1")
          for size in (0, 1, -0.1, "half")),
        *((lambda k=k: folds(*numbered(9), k), K) for k in (1, 0, -3, 2.5, True, "five")),
        (lambda: folds(*numbered(9), 10), "k must be at most 9, the number of samples; got 10"),
        (lambda: folds(np.eye(9), CLASSES, 4, classification=True), "at most 3, .* samples of class 7, the smallest; got 4"),
        *((lambda cut=cut, X=X, y=y: cut(X, y), SHAPES)
          for cut in (split, lambda X, y: folds(X, y, 2))
          for X, y in ((np.eye(4), np.arange(3.0)), (np.arange(4.0), np.arange(4.0)), (np.eye(4), 1.0))),
    ],
)  # fmt: skip
def test_bad_arguments(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(("share", "tested"), [(0.01, [3]), (0.5, [1, 3]), (0.99, [0, 1, 3])])
def test_the_last_rows_are_tested_and_one_at_least(share, tested):
    train, test = later(np.array([20, 30, 10, 40]), share)
    assert (test.tolist(), sorted([*train, *test])) == (tested, [0, 1, 2, 3])
    assert later(np.array([1, 2, 2, 2]), 0.25)[1].tolist() == [1, 2, 3]  # a moment is not cut


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("seed", range(5))
def test_groups_are_whole_and_the_test_has_its_share_of_rows_at_least(share, seed):
    groups = np.repeat(list("abcde"), [1, 2, 3, 4, 10])
    train, test = apart(groups, share, np.random.default_rng(seed))
    assert sorted([*train, *test]) == list(range(20))
    assert not set(groups[train]) & set(groups[test])
    assert 1 <= len(set(groups[test])) <= 4
    order = [list("abcde")[k] for k in np.random.default_rng(seed).permutation(5)]
    own = sum(len(groups[groups == name]) for name in order[: len(set(groups[test]))])
    assert len(test) == own
    last = (groups == order[len(set(groups[test])) - 1]).sum()
    assert len(test) - last < share * 20  # without the last one there would be too few
    assert len(test) >= share * 20 or len(set(groups[test])) == 4
