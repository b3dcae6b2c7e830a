"""Data sets by name, and their split."""

import os

import numpy as np
import pytest
from sklearn import datasets as bundled

from consensus import datasets

FOLDER = os.environ.get("CONSENSUS_DATA")
needs_folder = pytest.mark.skipif(not FOLDER, reason="CONSENSUS_DATA names no folder of data sets")


@pytest.mark.parametrize(("name", "shape"), [("diabetes", (442, 10)), ("breast_cancer", (569, 30)), ("digits", (1797, 64))])
def test_bundled_sets_are_scikit_learns(name, shape):
    X, y = datasets.load(name)
    reference = getattr(bundled, f"load_{name}")()
    assert X.shape == shape
    np.testing.assert_array_equal(X, reference.data)
    np.testing.assert_array_equal(y, reference.target)


@needs_folder
@pytest.mark.parametrize(
    ("name", "shape", "low", "high"),
    [
        ("boston", (506, 13), 5, 50),
        ("kin8nm", (8192, 8), 0.04, 1.459),
        ("wine", (4898, 11), 3, 9),
        ("mnist", (10000, 784), 0, 9),
    ],
)
def test_sets_from_the_folder_of_local_copies(name, shape, low, high):
    X, y = datasets.load(name)
    assert X.shape == shape
    assert y.shape == shape[:1]
    assert np.isfinite(X).all()
    assert y.min() == pytest.approx(low, abs=1e-2)
    assert y.max() == pytest.approx(high, abs=1e-2)


def test_a_folder_without_the_file_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("CONSENSUS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"CONSENSUS_DATA names a folder without kin8nm\.csv"):
        datasets.load("kin8nm")


def test_a_file_of_ones_own_in_that_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("CONSENSUS_DATA", str(tmp_path))
    table = np.arange(12.0).reshape(3, 4)
    np.savetxt(tmp_path / "housing.csv", table, delimiter=",")
    X, y = datasets.load("boston")
    np.testing.assert_array_equal(X, table[:, :3])
    np.testing.assert_array_equal(y, table[:, 3])


def test_no_network_says_what_to_do(monkeypatch):
    def unreachable(**_):
        raise OSError("no route")

    monkeypatch.delenv("CONSENSUS_DATA", raising=False)
    monkeypatch.setattr(bundled, "fetch_openml", unreachable)
    with pytest.raises(ConnectionError, match=r"put kin8nm\.csv in a folder and set CONSENSUS_DATA"):
        datasets.load("kin8nm")


def test_an_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match=r"'diabetes'.*'mnist'; got 'iris'"):
        datasets.load("iris")


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


def test_classes_keep_their_labels_and_proportions():
    X, y = datasets.load("digits")
    parts = datasets.split(X, y, seed=0, classification=True)
    assert set(np.unique(parts.y)) == set(range(10))
    share, whole = np.bincount(parts.y_test) / len(parts.y_test), np.bincount(y) / len(y)
    np.testing.assert_allclose(share, whole, atol=2 / len(parts.y_test))
    assert np.isfinite(parts.X).all()  # digits has constant features


@pytest.mark.parametrize("size", [0, 1, -0.1, "half"])
def test_bad_test_size(size):
    with pytest.raises(ValueError, match=r"test_size must be a finite number > 0 and < 1"):
        datasets.split(np.eye(4), np.arange(4.0), test_size=size)
