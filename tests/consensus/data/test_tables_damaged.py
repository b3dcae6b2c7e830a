"""Tables of pandas and sparse ones as data; files that are damaged are named with what is wrong."""

import gzip
import json

import numpy as np
import pytest
import scipy.sparse as sp

import consensus
import topologies
from consensus import datasets
from consensus.data import load_shards, save_shards

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 2)), RNG.standard_normal(30)
FLAGS = RNG.random(30) < 0.5


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas", reason="pandas is not installed")


def frame(pandas, **more):
    return pandas.DataFrame({"a": X[:, 0], "flag": FLAGS, "b": X[:, 1], **more})


def test_frames_with_booleans_are_numbers_everywhere(pandas):
    table, plain = frame(pandas), np.column_stack([X[:, 0], FLAGS, X[:, 1]])
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


def test_float32_frames_stay_float32(pandas):
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
def test_columns_of_other_things_are_refused_by_name(pandas, door):
    table = frame(pandas, colour=["red"] * 30, size=["x"] * 30)
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


def halves(path):
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])


def spoiled(path):
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3 : 2 * len(whole) // 3] = bytes(len(whole) // 3)
    path.write_bytes(whole)


def zipped(path):
    path.write_bytes(gzip.compress(path.read_bytes()))


def emptied(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [halves, spoiled, zipped, emptied])
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
        if damage is halves:
            return  # what is left of a text may well be a table
        path.write_text("a,b,y\n" + "\n".join(f"{a!r},{b!r},{y!r}" for (a, b), y in zip(X.tolist(), Y.tolist(), strict=True)))
    damage(path)
    with pytest.raises(ValueError, match=rf"table\.{suffix}"):
        datasets.load(path, target="y")


@pytest.mark.parametrize("damage", [halves, spoiled, zipped, emptied])
@pytest.mark.parametrize("name", ["index.json", "agent-1.npz"])
def test_damaged_shards_are_named(tmp_path, damage, name):
    save_shards(consensus.partition(X, Y, 3), tmp_path)
    damage(tmp_path / name)
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        load_shards(tmp_path)


@pytest.mark.parametrize("change", [{"agents": "3"}, {"agents": -1}, {"most": None}, {"samples": 0.5}, {"format": "one"}])
def test_an_index_that_says_nonsense_is_refused(tmp_path, change):
    save_shards(consensus.partition(X, Y, 3), tmp_path)
    path = tmp_path / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=str(tmp_path)):
        load_shards(tmp_path)
    path.write_text("[1, 2]")
    with pytest.raises(ValueError, match=r"has shards of format \[1, 2\]"):
        load_shards(tmp_path)


def test_agents_files_must_fit_each_other_and_the_index(tmp_path):
    save_shards(consensus.partition(X, Y, 3), tmp_path)
    path = tmp_path / "agent-1.npz"
    good = dict(np.load(path))
    for wrong in (
        {"features": good["features"][:, :1]},
        {"features": good["features"].astype(np.float32)},
        {"targets": good["targets"][:-1]},
        {"indices": good["indices"].astype(float)},
        {name: np.concatenate([array] * 2) for name, array in good.items()},
    ):
        np.savez(path, **good | wrong)
        with pytest.raises(ValueError, match=r"agent[ -]1"):
            load_shards(tmp_path)
    np.savez(path, features=good["features"])
    with pytest.raises(ValueError, match=r"agent-1\.npz must have the array 'targets', 'indices'; it has 'features'"):
        load_shards(tmp_path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        load_shards(tmp_path)


@pytest.mark.parametrize(
    ("agents", "error"),
    [
        ([], ValueError),
        ([3], ValueError),
        ([-1], ValueError),
        (0.5, TypeError),
        ("x", TypeError),
        (int, TypeError),
        (1, TypeError),
    ],
    ids=repr,
)
def test_agents_who_are_not_there(tmp_path, agents, error):
    save_shards(consensus.partition(X, Y, 3), tmp_path)
    with pytest.raises(error, match=r"^agents must "):
        load_shards(tmp_path, agents)


@pytest.mark.parametrize("odd", [None, 3, "x", [], {}, np.eye(3), type], ids=lambda odd: type(odd).__name__)
def test_what_is_no_shards_is_not_saved(tmp_path, odd):
    with pytest.raises(TypeError, match=r"^shards must be Shards"):
        save_shards(odd, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_shards_of_parts_that_do_not_belong_together_are_refused():
    good = consensus.partition(X, Y, 3)
    parts = {name: getattr(good, name) for name in ("features", "targets", "weights", "indices", "samples")}
    for name in ("features", "targets", "weights", "indices"):
        for odd in (None, [1.0], np.array(["x"])):
            with pytest.raises(TypeError, match=rf"^{name} of Shards must be an array of numbers"):
                consensus.Shards(**parts | {name: odd})
        with pytest.raises(ValueError, match=rf"^{'targets' if name == 'features' else name} of Shards must have shape"):
            consensus.Shards(**parts | {name: parts[name][:2]})
