"""Tables of one's own in delimited text, npz and Parquet; damaged files are named with what is wrong."""

import datetime
import importlib.util
import sys
from decimal import Decimal

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_iris

from consensus import datasets
from consensus.data import Columns
from tests.helpers import broken_files
from tests.helpers.refusals import refusals

HOUSES = "rooms,age,price\n3,10.5,200\n4,-2e1,250.5\n2,7,99\n"
TOWNS = "age,town,zip,kind\n31, Rome ,007,a\n47,Oslo,7,b\n52,Rome,007,a\n"


@pytest.fixture
def load(tmp_path):
    def load(text, target=-1, name="table.csv", **settings):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return datasets.load(tmp_path / name, target=target, **settings)

    return load


@pytest.mark.parametrize(
    ("target", "column"), [("price", 2), (2, 2), (-1, 2), ("rooms", 0), (-3, 0), ("age", 1), (np.int64(1), 1)]
)
def test_the_target_is_a_column_by_name_or_index(load, target, column):
    X, y = data = load(HOUSES, target)
    table = np.array([[3, 10.5, 200], [4, -20, 250.5], [2, 7, 99]])
    np.testing.assert_array_equal(y, table[:, column])
    np.testing.assert_array_equal(X, np.delete(table, column, axis=1))
    assert X.dtype == y.dtype == np.float64
    assert (data.classes, data.classification) == (None, False)


@pytest.mark.parametrize("header", ["", "a,b,c,d"])
def test_numbers_are_read_to_the_last_bit(tmp_path, header):
    table = np.random.default_rng(0).standard_normal((200, 4)) * 10.0 ** np.arange(-6, 6, 3)
    np.savetxt(tmp_path / "table.csv", table, delimiter=",", fmt="%.17g", header=header, comments="")
    X, y = datasets.load(str(tmp_path / "table.csv"), target=-1)
    np.testing.assert_array_equal(np.column_stack([X, y]), table)


def test_tables_that_pandas_wrote(tmp_path):
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame(rng.standard_normal((60, 3)), columns=["a, b", 'the "b"', "c"])
    frame["kind"] = rng.choice(["x", "y, z", "ü"], 60)
    frame.to_csv(tmp_path / "table.csv", index=False)
    data = datasets.load(tmp_path / "table.csv", target="kind")
    np.testing.assert_array_equal(data.X, frame.drop(columns="kind").to_numpy())
    codes, classes = pandas.factorize(frame["kind"], sort=True)
    np.testing.assert_array_equal(data.y, codes)
    assert data.classes == tuple(classes)


def test_text_becomes_the_sorted_classes(load):
    reference = load_iris()
    names = reference.target_names[::-1]  # in the file: not in their order
    lines = [",".join([*map(str, x), names[y]]) for x, y in zip(reference.data, reference.target, strict=True)]
    data = load("\n".join(lines))  # without a header: numbers where the second line has them
    np.testing.assert_array_equal(data.X, reference.data)
    np.testing.assert_array_equal(data.y, 2 - reference.target)
    assert (data.classes, data.classification) == (("setosa", "versicolor", "virginica"), True)
    assert data.y.dtype.kind == "i"


@pytest.mark.parametrize(("text", "rows", "first"), [
    ("1,2\n3,4\n", 2, 1),  # numbers: no header
    ("a,b\n3,4\n", 1, 3),
    ("id,2019,2020\n1,2,3\n", 1, 1),  # years above numbers
    ("nan,b\n3,4\n", 1, 3),
    ('"a";"b"\n3;4\n', 1, 3),
    ('"a;b",c\n3,4\n', 1, 3),
    ("a\tb\n3\t4\n", 1, 3),
    ("\ufeffa,b\r\n3,4\r\n\r\n5,6\r\n", 2, 3),  # as spreadsheets write it
    ("\na, b\n 3 , 4 \n", 1, 3),
    (" \na,b\n \t\n3,4\n  ", 1, 3),
    ("1e-3,2", 1, 1e-3),
])  # fmt: skip
def test_headers_and_delimiters(load, text, rows, first):
    X, y = load(text)
    assert len(X) == len(y) == rows
    assert X[0, 0] == first


def test_names_are_without_quotes_blanks_and_byte_order_mark(load):
    found = [load('\ufeff"first one", second\n1,2\n', target, "table.TSV").y for target in ("first one", 0, "second")]
    assert found == [1, 1, 2]


def test_text_that_python_or_pandas_might_take_for_something_else(load):
    data = load("code,flag\n007,true\n10, false \n")
    np.testing.assert_array_equal(data.X[:, 0], [7, 10])
    np.testing.assert_array_equal(data.y, [1, 0])
    assert data.classes == (False, True)
    with pytest.raises(ValueError, match=r"are not: 'code' \('1_0' in row \d"):
        load("code,flag\n007,true\n1_0, false \n")
    np.testing.assert_array_equal(load("size,flag\n1,true\n2,false\n", "size").X, [[1], [0]])
    whole = load(f"a,b\n{2**53 + 1},{10**30}\n1,{2**64 - 1}\n")
    np.testing.assert_array_equal([whole.X[:, 0], whole.y], [[float(2**53 + 1), 1], [1e30, float(2**64 - 1)]])


def test_numbers_are_classes_when_the_caller_asks_for_classes(load):
    text = "x,label\n1,2\n2,-1\n3,2\n4,10\n"
    assert load(text).classes is None
    data = load(text, classification=True)
    np.testing.assert_array_equal(data.y, [1, 0, 1, 2])
    assert data.classes == (-1, 2, 10)
    assert load("x,label\n1,2a\n2,3\n", classification=True).classes == ("2a", "3")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("categories", [["town", "zip"], [-2, 1]])
def test_categories_are_those_of_a_data_frame(load, tmp_path, suffix, categories):
    frame = pandas.DataFrame({"age": [31, 47, 52], "town": ["Rome", "Oslo", "Rome"], "zip": ["007", "7", "007"]})
    if suffix == "parquet":
        frame.assign(kind=[*"aba"]).to_parquet(tmp_path / "table.parquet")
        data = datasets.load(tmp_path / "table.parquet", target="kind", categories=categories)
    else:
        data = load(TOWNS.replace(",", "\t" if suffix == "tsv" else ","), "kind", f"table.{suffix}", categories=categories)
    features = frame.astype({"town": "category", "zip": "category"})
    assert (data.columns.names, data.columns.categories) == (tuple(features), Columns.of(features).categories)
    assert data.columns.features == ("age", "town_Oslo", "town_Rome", "zip_007", "zip_7")
    np.testing.assert_array_equal(data.X, data.columns.transform(features))
    assert data.classes == ("a", "b")
    with pytest.raises(ValueError, match=r"column 'zip' of frame must be one of '007', '7'; in row 0 .* it is '8'"):
        data.columns.transform(features.assign(zip="8"))


MANY = ",".join(f"c{i}" for i in range(30)) + "\n" + ",".join("1" * 30)


@pytest.mark.parametrize(("text", "target", "words"), [
    (HOUSES, None, r"target must be a column of .*table\.csv, one of 'rooms', 'age', 'price', .* -3 to 2; got None$"),
    (HOUSES, "cost", r"one of 'rooms', 'age', 'price', or an index from -3 to 2; got 'cost'$"),
    (HOUSES, 3, r"got 3$"),
    (HOUSES, -4, r"got -4$"),
    (HOUSES, True, r"got True$"),
    (HOUSES, 1.0, r"got 1\.0$"),
    ("1,2\n3,4\n", "1", r"one of 0, 1, or an index from -2 to 1; got '1'$"),
    ("a,a,b\n1,2,3\n", "a", r"one of 'a', 'a', 'b'.*; got 'a', a name that several columns have$"),
    (MANY, "y", r"'c19', \.\.\. \(30 in all\), or an index"),
    ("a,b,c\n1,2,3\n4,,6\n7,,9\n", "c", r"has missing values in 'b' \(2\) of 3 rows: in load .* 'mean' .* 'indicator'"),
    ("a,b,c\n1,2,3\n4,n/a,6\n", "c", r"has missing values in 'b' \(1\) of 2 rows"),
    ("1,2,3\n4,NaN,6\n", 0, r"has missing values in '1' \(1\) of 2 rows"),
    ("1,,3\n4,5,6\n", 0, r"has missing values in '1' \(1\) of 2 rows"),
    ("a,b,c\n1,2,3\n4,inf,6\n", "c", r"column 'b' of .* has an infinite value in row 1"),
    ("a,b\n1,2\n3,?\n", "b", r"has missing values in 'b' \(1\) of 2 rows: .*missing='drop' leaves these rows out$"),
    ("a,b\n1,no\n3,\n", "b", r"has missing values in 'b' \(1\) of 2 rows"),
    ("a,city,b,day\n1,Rome,2,June\n3,Oslo,4,May\n", "a", r"are not: 'city' \('Rome' in row 0: .*; 'day' \('June' in row 0: "),
    ("a,b\n" + 200_000 * "x" + ",2\n", "b", r"are not: 'a' \('xx.{1,200} in row 0: categories"),
    ("a,b\n1,20\n2,unknown\n3,30\n", "b", r"target must be .*; column 'b' of .* has the text 'unknown' in row 1 .*\. Pass"),
    ("a,b\n1,2\n3\n", "b", r"line 3 has 1 cells between ',', not 2: '3'"),
    ("a,b\n1,2,3,4\n", "b", r"first line has 2 cells, 'a,b', and others 4"),
    ("1,2\n3,4\n\n5,6,7\n", -1, r"must be delimited text: line 4 has 3 cells between ',', the first 2"),
    *((text, 0, r"table\.csv has no rows") for text in ("a,b\n", "", "\n\n", " \n")),
    ('a,b\n1,"2\n3,4\n', "b", r"table\.csv must be delimited text: .* EOF inside string"),
    ("a\n1\n2\n", "a", r"table\.csv has no features besides the target"),
])  # fmt: skip
def test_faults_of_a_table(load, text, target, words):
    with pytest.raises(ValueError, match=words):
        load(text, target)


@pytest.mark.parametrize("content", ["größe,b\n1,2\n".encode("latin-1"), b"a,b\n1,2\0\n"])
def test_files_that_are_not_text(tmp_path, content):
    for suffix, words in (("csv", "must be (delimited )?text in UTF-8"), ("npz", "is not an npz file")):
        (tmp_path / f"table.{suffix}").write_bytes(content)
        with pytest.raises(ValueError, match=rf"table\.{suffix} {words}"):
            datasets.load(tmp_path / f"table.{suffix}", target=-1)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_a_missing_file_is_named(tmp_path, suffix):
    with pytest.raises(FileNotFoundError, match=rf"name must be a file that exists; got '.*none\.{suffix}'"):
        datasets.load(tmp_path / f"none.{suffix}", target=0)


# Tables of one's own in npz and Parquet; damaged files are named with what is wrong.


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
    path = npz(X=X, y=y, kind=np.array(["b", "a", "a", "b", "c", "b"]), good=y > 2, column=y[:, None])
    data, kinds, good, one = (datasets.load(path, target=target) for target in (None, "kind", "good", "column"))
    for found, expected in ((data.X, X), (data.y, y), (kinds.y, [1, 0, 0, 1, 2, 1]), (good.y, y > 2), (one.y, y)):
        np.testing.assert_array_equal(found, expected)
    assert (data.X.dtype, data.y.dtype) == (np.float32, np.float64)
    assert (data.classes, kinds.classes, good.classes) == (None, ("a", "b", "c"), (False, True))
    assert datasets.load(path, target="good", classification=False).classes is None
    assert datasets.load(path, classification=True).classes == (1, 3, 5)


EYE, ONES = np.eye(3), np.ones(3)


@pytest.mark.parametrize(("arrays", "words"), [
    ({"a": EYE, "y": ONES}, r"must have an array 'X' \(samples, features\); it has 'a', 'y'"),
    ({"X": EYE, "z": ONES}, r"target must be an array of .*npz, which has 'X', 'z'; got 'y'"),
    ({"X": ONES, "y": ONES}, r"array 'X' of .* must be numbers .*; got float64 \(3,\)"),
    ({"X": EYE.astype(str), "y": ONES}, r"array 'X' of .* must be numbers .*; got <U"),
    ({"X": EYE, "y": np.ones((1, 3))}, r"array 'y' of .* must have shape \(3,\), .*; got \(1, 3\)"),
    ({"X": EYE, "y": np.ones(4)}, r"array 'y' of .* must have shape \(3,\), .*; got \(4,\)"),
    ({"X": EYE, "y": np.ones(3, complex)}, r"array 'y' of .* has dtype complex128"),
    ({"X": EYE, "y": np.array(["a", None, "b"])}, r"holds Python objects.*dtype=str"),
    ({"X": np.array([[1, 2], [3, np.nan]]), "y": np.ones(2)}, r"column 1 of .* has a missing value in row 1"),
    ({"X": EYE, "y": np.array([1, 2, np.inf])}, r"array 'y' of .* has an infinite value in row 2"),
    ({"X": EYE, "y": np.array(["a", "", "b"])}, r"array 'y' of .* has a missing value in row 1"),
    ({"X": np.empty((0, 3)), "y": np.empty(0)}, r"has no rows"),
    ({"X": np.empty((3, 0)), "y": np.empty(3)}, r"has no features besides the target"),
])  # fmt: skip
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


test_refusals = refusals(
    (lambda load: load(TOWNS, "kind", categories=["city"]), ValueError,
     r"categories must be a column of .*csv, one of 'age', 'town', .*; got 'city'$"),
    (lambda load: load(TOWNS, "kind", categories=["kind"]), ValueError,
     r"categories must be features; got the target, 'kind'$"),
    (lambda load: load(TOWNS, "kind", categories="town"), TypeError,
     r"categories must be a list of columns, by name or index; got 'town'$"),
    (lambda load: load(TOWNS, "kind", categories=[None]), TypeError, r"categories must be a list of columns"),
    (lambda load: load(TOWNS, "kind", categories=3), TypeError, r"categories must be a list of columns"),
    (lambda load: load(TOWNS, "kind", categories=None), TypeError, r"categories must be a list of columns"),
    (lambda load: load(TOWNS, "kind", categories=[]), ValueError,
     r"must be numbers or categories; .* are not: 'town' \('Rome' in row 0: categories=\['town'\]"),
    (lambda load: load(TOWNS.replace("Oslo", " "), "kind", categories=["town"]), ValueError,
     r"csv has missing values in 'town' \(1\) of 3 rows: .*missing='drop'"),
    (lambda load: load(TOWNS.replace("47", "x"), "kind", categories=["town"]), ValueError,
     r"are not: 'age' \('x' in row 1, among 2 numbers: na_values=\['x'\]"),
    (lambda load: load(TOWNS.replace("47", ""), "kind", categories=["town"]), ValueError,
     r"csv has missing values in 'age' \(1\) of 3 rows"),
    (lambda load: load(TOWNS.replace("zip", "age"), "kind", categories=["town"]), ValueError,
     r"csv must have names of their own; got more than one of 'age'"),
    (lambda load: load("a,b\n1,no\n3,yes\n", classification=False), ValueError,
     r"has the text 'no' in row 0 .*\. Pass .*; got classification=False"),
)  # fmt: skip
