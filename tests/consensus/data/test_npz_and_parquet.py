"""Tables of one's own in npz and Parquet; damaged files are named with what is wrong."""

import datetime
import importlib.util
import sys
from decimal import Decimal

import numpy as np
import pandas
import pytest

from consensus import datasets
from tests.helpers import broken_files

needs_pyarrow = pytest.mark.skipif(not importlib.util.find_spec("pyarrow"), reason="pyarrow is not installed")
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 2)), RNG.standard_normal(30)


@pytest.fixture
def npz(tmp_path):
    def write(save=np.savez, **arrays):
        save(tmp_path / "table.npz", **arrays)
        return tmp_path / "table.npz"

    return write


@pytest.fixture
def parquet(tmp_path):
    """Write a data frame, or columns as Arrow has them."""
    pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    import pyarrow as pa

    def write(frame=None, **columns):
        table = pa.table(columns) if frame is None else pa.Table.from_pandas(frame)
        pa.parquet.write_table(table, tmp_path / "table.parquet")
        return tmp_path / "table.parquet"

    return write


def rejected(path, words, target="y"):
    with pytest.raises(ValueError, match=words):
        datasets.load(path, target=target)


def test_npz_has_features_and_target(npz):
    X, y = RNG.standard_normal((6, 2)).astype(np.float32), np.array([3, 1, 1, 3, 5, 5])
    path = npz(X=X, y=y, kind=np.array(["b", "a", "a", "b", "c", "b"]), good=y > 2)
    data, kinds, good = (datasets.load(path, target=target) for target in (None, "kind", "good"))
    for found, expected in ((data.X, X), (data.y, y), (kinds.y, [1, 0, 0, 1, 2, 1]), (good.y, y > 2)):
        np.testing.assert_array_equal(found, expected)
    assert (data.X.dtype, data.y.dtype) == (np.float32, np.float64)
    assert (data.classes, kinds.classes, good.classes) == (None, ("a", "b", "c"), (False, True))
    assert datasets.load(path, target="good", classification=False).classes is None
    assert datasets.load(path, classification=True).classes == (1, 3, 5)


EYE, ONES = np.eye(3), np.ones(3)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a": EYE, "y": ONES}, r"must have an array 'X' \(samples, features\); it has 'a', 'y'"),
        ({"X": EYE, "z": ONES}, r"target must be an array of .*npz, which has 'X', 'z'; got 'y'"),
        ({"X": ONES, "y": ONES}, r"array 'X' of .* must be numbers .*; got float64 \(3,\)"),
        ({"X": EYE.astype(str), "y": ONES}, r"array 'X' of .* must be numbers .*; got <U"),
        ({"X": EYE, "y": np.ones((3, 1))}, r"array 'y' of .* must have shape \(3,\), .*; got \(3, 1\)"),
        ({"X": EYE, "y": np.ones(4)}, r"array 'y' of .* must have shape \(3,\), .*; got \(4,\)"),
        ({"X": EYE, "y": np.ones(3, complex)}, r"array 'y' of .* has dtype complex128"),
        ({"X": EYE, "y": np.array(["a", None, "b"])}, r"holds Python objects.*dtype=str"),
        ({"X": np.array([[1, 2], [3, np.nan]]), "y": np.ones(2)}, r"column 1 of .* has a missing value in row 1"),
        ({"X": EYE, "y": np.array([1, 2, np.inf])}, r"array 'y' of .* has an infinite value in row 2"),
        ({"X": EYE, "y": np.array(["a", "", "b"])}, r"array 'y' of .* has a missing value in row 1"),
        ({"X": np.empty((0, 3)), "y": np.empty(0)}, r"has no rows"),
        ({"X": np.empty((3, 0)), "y": np.empty(3)}, r"has no features besides the target"),
    ],
)
def test_faults_of_an_npz_file(npz, arrays, words):
    rejected(npz(**arrays), words)
    rejected(npz(X=EYE, y=ONES), "which has 'X', 'y'; got -1", -1)
    with pytest.raises(ValueError, match=r"categories .* go with tables of text and Parquet, not with arrays"):
        datasets.load(npz(X=EYE, y=ONES), categories=[0])


def test_sizes_of_arrays_are_checked_before_they_take_memory(npz):
    packed = npz(np.savez_compressed, X=np.zeros((broken_files.LARGE // 2, 2)), y=np.ones(4))
    with broken_files.little_memory():
        rejected(packed, r"array 'y' of .* must have shape")
    claiming = npz(X=np.ones((4, 2)), y=np.ones(4))
    broken_files.claiming(claiming, "X", (broken_files.LARGE // 2, 2))
    with broken_files.little_memory():
        rejected(claiming, r"table\.npz.*X\.npy cannot hold its 40000128 bytes in 208 of the file")
    columns = np.zeros((1000, 50)) + np.arange(50)
    np.testing.assert_array_equal(datasets.load(npz(np.savez_compressed, X=columns, y=columns[:, 0])).X, columns)


@pytest.mark.parametrize("damage", broken_files.WAYS)
@pytest.mark.parametrize("suffix", ["npz", pytest.param("parquet", marks=needs_pyarrow), "csv"])
def test_damaged_tables_are_named(tmp_path, npz, damage, suffix):
    if suffix == "csv" and damage is broken_files.halves:
        return  # half of a text may well be a table
    frame, path = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y}), tmp_path / f"table.{suffix}"
    if suffix == "npz":
        npz(np.savez_compressed, X=X, y=Y)
    else:
        (frame.to_csv if suffix == "csv" else frame.to_parquet)(path, index=False)
    damage(path)
    rejected(path, rf"table\.{suffix}")


def test_parquet_from_pandas(parquet):
    frame = pandas.DataFrame({"x": RNG.standard_normal(50), "count": RNG.integers(0, 9, 50), "flag": RNG.random(50) < 0.5})
    frame["kind"], frame["size"] = RNG.choice(["dog", "cat", "eel"], 50), pandas.Categorical(RNG.choice(["S", "M"], 50))
    frame = frame[frame["x"] > -1]  # leaves an index that Parquet keeps, which is no feature
    kinds = datasets.load(parquet(frame), target="kind")
    features = pandas.get_dummies(frame.drop(columns="kind"), columns=["size"])
    assert (kinds.columns.features, kinds.classes) == (tuple(features.columns), ("cat", "dog", "eel"))
    np.testing.assert_array_equal(kinds.X, features.to_numpy(dtype=float))
    np.testing.assert_array_equal(kinds.y, frame["kind"].map({"cat": 0, "dog": 1, "eel": 2}))
    assert datasets.load(parquet(frame.drop(columns="kind")), target="size").classes == ("M", "S")
    counts = datasets.load(parquet(frame[["x", "count"]]), target=-1)
    np.testing.assert_array_equal(counts.y, frame["count"])
    assert not counts.classification


def test_parquet_keeps_the_dtypes_of_data_frames(parquet):
    frame = pandas.DataFrame({"1": [1.5, 2.5], "2": [3, 4], "3": [True, False], "4": pandas.Categorical([7, 8])})
    frame = frame.astype({"1": "Float32", "2": "Int64", "3": "boolean"})
    data = datasets.load(parquet(frame), target="3")
    np.testing.assert_array_equal(data.X, [[1.5, 3, 7], [2.5, 4, 8]])
    assert data.classes == (False, True)
    frame.loc[1, "2"] = None
    rejected(parquet(frame), r"missing values in '2' (.*) of 2 rows", "3")
    named = parquet(frame[["1", "3"]].set_axis([0, 1], axis="columns"))  # in the file names are text
    assert datasets.load(named, target="1").classes == (False, True)


def test_kinds_of_parquet_columns(parquet):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    found = datasets.load(parquet(a=[Decimal("1.25"), Decimal("2.50")], b=pa.array([1, 2], pa.int8()), y=[7, 9]), target="y")
    np.testing.assert_array_equal(found.X, [[1.25, 1], [2.5, 2]])
    np.testing.assert_array_equal(found.y, [7, 9])
    assert datasets.load(parquet(a=pa.array([1, 2], pa.float32()), y=[1, 2]), target="y").X.dtype == np.float32
    missing = [[1, None], [True, None], [Decimal("1.5"), None]]
    for column in (*missing, [1.5, None], [0.5, np.nan], ["a", None]):
        rejected(parquet(a=[1, 2], y=column), r"missing values in 'y' (.*) of 2 rows")
    for column in missing:
        rejected(parquet(a=column, y=[1, 2]), r"missing values in 'a' \(1\) of 2 rows")
    rejected(parquet(a=[None, None], y=[1, 2]), r"missing values in 'a' \(2\) of 2 rows")
    days, one = [datetime.date(2020, 1, 1)] * 2, [1, 2]
    lists = parquet(day=days, list=[[1], [2]], y=one)
    rejected(lists, r"are not: 'day' \(.*2020.* in row 0: .*; 'list' \(.* in row 0: ")
    rejected(parquet(x=one, day=days), r"numbers or text; column 'day' .* has datetime\.date\(2020, 1, 1\)", "day")
    rejected(parquet(x=one, y=one), r"target must be a column of .*, one of 'x', 'y', .*; got 'z'", "z")
    empty = pa.array([], pa.float64())
    rejected(parquet(x=empty, y=empty), r"table\.parquet has no rows")


def test_parquet_without_its_reader_names_the_extra_to_install(monkeypatch, tmp_path):
    (tmp_path / "table.parquet").write_text("a,b\n1,2\n")
    rejected(tmp_path / "table.parquet", r"table\.parquet is not a Parquet file: ")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"reading .*table.parquet needs pyarrow: pip install 'consensus-opt\[parquet\]'$"):
        datasets.load(tmp_path / "table.parquet", target=0)
