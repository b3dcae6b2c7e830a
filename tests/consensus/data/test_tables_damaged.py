"""Tables of pandas and sparse ones as data; files that are damaged are named with what is wrong."""

import broken_files
import numpy as np
import pandas
import pytest
import scipy.sparse as sp

import consensus
import topologies
from consensus import datasets

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 2)), RNG.standard_normal(30)
FLAGS = RNG.random(30) < 0.5


def frame(**more):
    return pandas.DataFrame({"a": X[:, 0], "flag": FLAGS, "b": X[:, 1], **more})


def test_frames_with_booleans_are_numbers_everywhere():
    table, plain = frame(), np.column_stack([X[:, 0], FLAGS, X[:, 1]])
    assert table.to_numpy().dtype == object
    labels = pandas.Series([bool(flag) for flag in FLAGS], dtype=object)
    one, other = consensus.partition(table, labels, 3), consensus.partition(plain, FLAGS, 3)
    for name in ("features", "targets", "weights", "indices"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for ours, theirs in zip(datasets.split(table, Y), datasets.split(plain, Y), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(datasets.folds(table, Y, 3), datasets.folds(plain, Y, 3), strict=True):
        np.testing.assert_array_equal(ours.X_test, theirs.X_test)
    problem = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), consensus.partition(plain, Y, 4))
    runs = [consensus.solve(problem, topologies.ring(4), rounds=2, test=(X, Y)) for X in (table, plain)]
    np.testing.assert_array_equal(runs[0].history["test_error"], runs[1].history["test_error"])


def test_float32_frames_stay_float32():
    table = pandas.DataFrame(X.astype(np.float32), columns=["a", "b"])
    assert consensus.partition(table, Y, 3).features.dtype == np.float32


def doors():
    problem = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), consensus.partition(np.eye(30, 3), Y, 4))
    return {
        "X must": lambda table: consensus.partition(table, Y, 3),
        "X  must": lambda table: datasets.split(table, Y),
        "X   must": lambda table: datasets.folds(table, Y, 3),
        "X of test must": lambda table: consensus.solve(problem, topologies.ring(4), rounds=1, test=(table, Y)),
    }


@pytest.mark.parametrize("door", doors())
def test_columns_of_other_things_are_refused_by_name(door):
    table = frame(colour=["red"] * 30, size=["x"] * 30)
    words = rf"{' '.join(door.split())} hold real numbers; not so its columns 'colour' \('red'\), 'size' \('x'\)"
    with pytest.raises(ValueError, match=words):
        doors()[door](table)


@pytest.mark.parametrize("door", doors())
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_features_are_refused_with_what_to_do(door, kind):
    name = " ".join(door.split()).removesuffix(" must")
    with pytest.raises(TypeError, match=rf"{name} must be a dense array; got a sparse .*: pass {name}\.toarray\(\)"):
        doors()[door](kind(np.eye(30, 3)))


@pytest.mark.parametrize("test", [3, "ab", (X,), (X, Y, Y), [], object()], ids=lambda t: type(t).__name__)
def test_a_test_set_is_a_pair(test):
    problem = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), consensus.partition(X, Y, 4))
    with pytest.raises((TypeError, ValueError), match=r"^(test must be a pair \(X, y\)|X of test must)"):
        consensus.solve(problem, topologies.ring(4), rounds=1, test=test)


@pytest.mark.parametrize("how", ["packed", "claimed"])
def test_sizes_of_arrays_are_looked_at_before_they_take_memory(tmp_path, how):
    path = tmp_path / "table.npz"
    np.savez(path, X=np.ones((4, 2)), y=np.ones(4))
    if how == "packed":
        np.savez_compressed(path, X=np.zeros((broken_files.LARGE // 2, 2)), y=np.ones(4))
    else:
        broken_files.claiming(path, "X", (broken_files.LARGE // 2, 2))
    words = {"packed": "array 'y' of .* must have shape", "claimed": "X.npy cannot hold its 40000128 bytes in 208 of the file"}
    with broken_files.little_memory(), pytest.raises(ValueError, match=rf"table\.npz.*{words[how]}|{words[how]}"):
        consensus.datasets.load(path)


def test_packed_arrays_are_read(tmp_path):
    X = np.zeros((1000, 50))
    X[:, 0] = np.arange(1000)
    np.savez_compressed(tmp_path / "table.npz", X=X, y=X[:, 0])
    found, *_ = consensus.datasets.load(tmp_path / "table.npz")
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("damage", broken_files.WAYS)
@pytest.mark.parametrize("suffix", ["npz", "parquet", "csv"])
def test_damaged_tables_are_named(tmp_path, damage, suffix):
    path = tmp_path / f"table.{suffix}"
    if suffix == "npz":
        np.savez_compressed(path, X=X, y=Y)
    elif suffix == "parquet":
        pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        from pyarrow import parquet

        parquet.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": Y}), path)
    else:
        if damage is broken_files.halves:
            return  # what is left of a text may well be a table
        path.write_text("a,b,y\n" + "\n".join(f"{a!r},{b!r},{y!r}" for (a, b), y in zip(X.tolist(), Y.tolist(), strict=True)))
    damage(path)
    with pytest.raises(ValueError, match=rf"table\.{suffix}"):
        datasets.load(path, target="y")
