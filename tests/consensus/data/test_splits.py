"""Training and test parts."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

from consensus import datasets


def numbered(samples):
    """Data whose second feature says which sample a row is, also after standardisation."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(5, 3, samples), np.arange(samples)]), rng.normal(-2, 7, samples)


def test_split_standardises_by_the_training_part_alone():
    X, y = datasets.load("diabetes")
    parts = datasets.split(X, y, test_size=0.25, seed=3)
    assert len(parts.X) + len(parts.X_test) == len(X)
    np.testing.assert_allclose(parts.X.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(parts.X.std(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose([parts.y.mean(), parts.y.std() - 1], 0, atol=1e-13)
    assert abs(parts.X_test.mean(axis=0)).max() > 1e-3
    again, other = datasets.split(X, y, test_size=0.25, seed=3), datasets.split(X, y, test_size=0.25, seed=4)
    np.testing.assert_array_equal(parts.X, again.X)
    assert not np.array_equal(parts.X, other.X)


def test_the_test_part_is_transformed_with_the_training_parts_numbers():
    X, y = numbered(50)
    parts = datasets.split(X, y, test_size=0.3, seed=1)
    # The order of the second feature in both parts together tells the rows apart.
    order = np.argsort(np.argsort(np.concatenate([parts.X[:, 1], parts.X_test[:, 1]])))
    train, test = order[: len(parts.X)], order[len(parts.X) :]
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    np.testing.assert_allclose(parts.X, (X[train] - mean) / deviation, atol=1e-13)
    np.testing.assert_allclose(parts.X_test, (X[test] - mean) / deviation, atol=1e-13)
    np.testing.assert_allclose(parts.y_test, (y[test] - y[train].mean()) / y[train].std(), atol=1e-13)


def test_classes_keep_their_labels_and_proportions():
    X, y = datasets.load("digits")
    parts = datasets.split(X, y, seed=0, classification=True)
    assert set(np.unique(parts.y)) == set(range(10))
    share, whole = np.bincount(parts.y_test) / len(parts.y_test), np.bincount(y) / len(y)
    np.testing.assert_allclose(share, whole, atol=2 / len(parts.y_test))
    assert np.isfinite(parts.X).all()  # digits has constant features


def test_several_outputs_and_single_precision():
    X, y = numbered(40)
    parts = datasets.split(X.astype(np.float32), np.column_stack([y, y**2]))
    assert parts.X.dtype == parts.X_test.dtype == np.float32
    assert parts.y.shape == (32, 2)
    np.testing.assert_allclose(parts.y.std(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("size", [0, 1, -0.1, "half"])
def test_bad_test_size(size):
    with pytest.raises(ValueError, match=r"test_size must be a finite number > 0 and < 1"):
        datasets.split(np.eye(4), np.arange(4.0), test_size=size)


@pytest.mark.parametrize("k", [2, 5, 23])
def test_folds_are_disjoint_cover_everything_and_standardise_by_their_own_training_part(k):
    X, y = numbered(23)
    tested = []
    for fold, (train, test) in zip(
        datasets.folds(X, y, k, seed=4), KFold(k, shuffle=True, random_state=4).split(X), strict=True
    ):
        mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
        np.testing.assert_allclose(fold.X.mean(axis=0), 0, atol=1e-13)
        np.testing.assert_allclose(fold.X.std(axis=0), 1, rtol=1e-12)
        np.testing.assert_allclose([fold.y.mean(), fold.y.std() - 1], 0, atol=1e-13)
        np.testing.assert_allclose(fold.X_test, (X[test] - mean) / deviation, atol=1e-13)
        np.testing.assert_allclose(fold.y_test, (y[test] - y[train].mean()) / y[train].std(), atol=1e-13)
        back = np.rint(fold.X_test[:, 1] * deviation[1] + mean[1]).astype(int)
        assert len(fold.X) + len(back) == 23
        tested.extend(back.tolist())
    assert sorted(tested) == list(range(23))


def test_folds_of_classes_keep_labels_and_proportions():
    X, y = datasets.load("wine_cultivars")
    folds = list(datasets.folds(X, y, 6, seed=2, classification=True))
    reference = StratifiedKFold(6, shuffle=True, random_state=2).split(X, y)
    for fold, (train, test) in zip(folds, reference, strict=True):
        np.testing.assert_array_equal(fold.y, y[train])
        np.testing.assert_array_equal(fold.y_test, y[test])
        np.testing.assert_allclose(np.bincount(fold.y_test), np.bincount(y) / 6, atol=1)


def test_folds_are_drawn_by_the_seed():
    X, y = numbered(20)
    first, again, other = (next(iter(datasets.folds(X, y, 4, seed=seed))) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X_test, again.X_test)
    assert not np.array_equal(first.X_test, other.X_test)


@pytest.mark.parametrize("k", [1, 0, -3, 2.5, True, "five"])
def test_k_is_a_whole_number_from_two(k):
    with pytest.raises(ValueError, match=r"k must be a whole number >= 2; got "):
        datasets.folds(*numbered(9), k)


def test_k_is_at_most_the_samples_or_the_smallest_class():
    with pytest.raises(ValueError, match=r"k must be at most 9, the number of samples; got 10"):
        datasets.folds(*numbered(9), 10)
    with pytest.raises(ValueError, match=r"k must be at most 3, the number of samples of class 7, the smallest; got 4"):
        datasets.folds(np.eye(9), np.array([2] * 6 + [7] * 3), 4, classification=True)
    assert len(list(datasets.folds(np.eye(9), np.array([2] * 6 + [7] * 3), 3, classification=True))) == 3


@pytest.mark.parametrize("function", [datasets.split, lambda X, y: datasets.folds(X, y, 2)])
@pytest.mark.parametrize(("X", "y"), [(np.eye(4), np.arange(3.0)), (np.arange(4.0), np.arange(4.0)), (np.eye(4), 1.0)])
def test_shapes_that_disagree(function, X, y):
    with pytest.raises(ValueError, match=r"X must have shape \(samples, features\), and y .*; got \("):
        function(X, y)
