"""Tables of one's own: delimited text, Parquet, npz."""

import sys

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_iris

from consensus import datasets
from consensus.data import Columns

HOUSES = "rooms,age,price\n3,10.5,200\n4,-2e1,250.5\n2,7,99\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="table.csv", **settings):
        path = tmp_path / name
        path.write_text(text, **settings)
        return path

    return write


@pytest.mark.parametrize(
    ("target", "column"), [("price", 2), (2, 2), (-1, 2), ("rooms", 0), (-3, 0), ("age", 1), (np.int64(1), 1)]
)
def test_the_target_is_a_column_by_name_or_index(write, target, column):
    X, y = data = datasets.load(write(HOUSES), target=target)
    table = np.array([[3, 10.5, 200], [4, -20, 250.5], [2, 7, 99]])
    np.testing.assert_array_equal(y, table[:, column])
    np.testing.assert_array_equal(X, np.delete(table, column, axis=1))
    assert X.dtype == y.dtype == np.float64
    assert data.classes is None
    assert not data.classification


@pytest.mark.parametrize("header", ["", "a,b,c,d"])
def test_numbers_come_back_to_the_last_bit(tmp_path, header):
    table = np.random.default_rng(0).standard_normal((200, 4)) * 10.0 ** np.arange(-6, 6, 3)
    np.savetxt(tmp_path / "table.csv", table, delimiter=",", fmt="%.17g", header=header, comments="")
    X, y = datasets.load(str(tmp_path / "table.csv"), target=-1)
    np.testing.assert_array_equal(np.column_stack([X, y]), table)


def test_what_pandas_wrote_comes_back(tmp_path):
    rng = np.random.default_rng(1)
    frame = pandas.DataFrame(rng.standard_normal((60, 3)), columns=["a, b", 'the "b"', "c"])
    frame["kind"] = rng.choice(["x", "y, z", "ü"], 60)
    frame.to_csv(tmp_path / "table.csv", index=False)
    data = datasets.load(tmp_path / "table.csv", target="kind")
    np.testing.assert_array_equal(data.X, frame.drop(columns="kind").to_numpy())
    codes, classes = pandas.factorize(frame["kind"], sort=True)
    np.testing.assert_array_equal(data.y, codes)
    assert data.classes == tuple(classes)


def test_text_becomes_the_sorted_classes(tmp_path):
    reference = load_iris()
    names = reference.target_names[::-1]  # in the file: not in their order
    lines = [",".join([*map(str, x), names[y]]) for x, y in zip(reference.data, reference.target, strict=True)]
    (tmp_path / "iris.csv").write_text("\n".join(lines))  # without a header: numbers where the second line has them
    data = datasets.load(tmp_path / "iris.csv", target=-1)
    np.testing.assert_array_equal(data.X, reference.data)
    np.testing.assert_array_equal(data.y, 2 - reference.target)
    assert data.classes == ("setosa", "versicolor", "virginica")
    assert data.classification
    assert data.y.dtype.kind == "i"


@pytest.mark.parametrize(
    ("text", "rows", "first"),
    [
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
    ],
)
def test_headers_and_delimiters(write, text, rows, first):
    X, y = datasets.load(write(text, encoding="utf-8"), target=-1)
    assert len(X) == len(y) == rows
    assert X[0, 0] == first


def test_names_are_without_quotes_blanks_and_byte_order_mark(write):
    path = write('\ufeff"first one", second\n1,2\n', "table.TSV", encoding="utf-8")
    assert datasets.load(path, target="first one").y == datasets.load(path, target=0).y == 1
    assert datasets.load(path, target="second").y == 2


def test_words_of_text_stay_words(write):
    data = datasets.load(write("code,flag\n007,true\n1_0, false \n"), target="flag")
    np.testing.assert_array_equal(data.X[:, 0], [7, 10])
    assert data.classes == ("false", "true")
    with pytest.raises(ValueError, match=r"are not: 'flag' \('true' in row 0\)"):
        datasets.load(write("size,flag\n1,true\n2,false\n"), target="size")
    whole = datasets.load(write(f"a,b\n{2**53 + 1},{10**30}\n1,{2**64 - 1}\n"), target="b")
    np.testing.assert_array_equal([whole.X[:, 0], whole.y], [[float(2**53 + 1), 1], [1e30, float(2**64 - 1)]])


def test_numbers_are_classes_when_the_caller_says_so(write):
    path = write("x,label\n1,2\n2,-1\n3,2\n4,10\n")
    assert datasets.load(path, target="label").classes is None
    data = datasets.load(path, target="label", classification=True)
    np.testing.assert_array_equal(data.y, [1, 0, 1, 2])
    assert data.classes == (-1, 2, 10)
    mixed = datasets.load(write("x,label\n1,2a\n2,3\n"), target="label", classification=True)
    assert mixed.classes == ("2a", "3")


TOWNS = "age,town,zip,kind\n31, Rome ,007,a\n47,Oslo,7,b\n52,Rome,007,a\n"


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("categories", [["town", "zip"], [-2, 1]])
def test_categories_are_those_of_a_data_frame(tmp_path, suffix, categories):
    frame = pandas.DataFrame(
        {"age": [31, 47, 52], "town": ["Rome", "Oslo", "Rome"], "zip": ["007", "7", "007"], "kind": [*"aba"]}
    )
    frame = frame.astype({"town": "category", "zip": "category"})
    path = tmp_path / f"table.{suffix}"
    if suffix == "parquet":
        frame.astype({"town": object, "zip": object}).to_parquet(path)
    else:
        path.write_text(TOWNS.replace(",", "\t" if suffix == "tsv" else ","))
    data = datasets.load(path, target="kind", categories=categories)
    features = frame.drop(columns="kind")
    wanted = Columns.of(features)
    assert data.columns == wanted
    assert data.columns.features == ("age", "town_Oslo", "town_Rome", "zip_007", "zip_7")
    np.testing.assert_array_equal(data.X, wanted.transform(features))
    assert data.classes == ("a", "b")
    with pytest.raises(ValueError, match=r"column 'zip' of frame must be one of '007', '7'; in row 0 .* it is '8'"):
        data.columns.transform(features.assign(zip="8"))


@pytest.mark.parametrize(
    ("text", "categories", "error", "message"),
    [
        (TOWNS, ["city"], ValueError, r"categories must be a column of .*csv, one of 'age', 'town', .*; got 'city'$"),
        (TOWNS, ["kind"], ValueError, r"categories must be features; got the target, 'kind'$"),
        (TOWNS, "town", TypeError, r"categories must be a list of columns, by name or index; got 'town'$"),
        (TOWNS, [None], TypeError, r"categories must be a list of columns"),
        (TOWNS, 3, TypeError, r"categories must be a list of columns"),
        (TOWNS, None, TypeError, r"categories must be a list of columns"),
        (
            TOWNS,
            [],
            ValueError,
            r"features must be numbers or categories; .* are not: 'town' \('Rome' in row 0\)\. Name them in cat",
        ),
        (TOWNS.replace("Oslo", " "), ["town"], ValueError, r"column 'town' of .*csv has a missing value in row 1"),
        (TOWNS.replace("47", "x"), ["town"], ValueError, r"are not: 'age' \('x' in row 1\)"),
        (TOWNS.replace("47", ""), ["town"], ValueError, r"column 'age' of .*csv has a missing value in row 1"),
        (
            TOWNS.replace("zip", "age"),
            ["town"],
            ValueError,
            r"columns of .*csv must have names of their own; got more than one of 'age'",
        ),
    ],
)
def test_what_is_wrong_with_categories(write, text, categories, error, message):
    with pytest.raises(error, match=message):
        datasets.load(write(text), target="kind", categories=categories)


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (HOUSES, None, r"target must be a column of .*table\.csv, one of 'rooms', 'age', 'price', .* -3 to 2; got None$"),
        (HOUSES, "cost", r"one of 'rooms', 'age', 'price', or an index from -3 to 2; got 'cost'$"),
        (HOUSES, 3, r"got 3$"),
        (HOUSES, -4, r"got -4$"),
        (HOUSES, True, r"got True$"),
        (HOUSES, 1.0, r"got 1\.0$"),
        ("1,2\n3,4\n", "1", r"one of 0, 1, or an index from -2 to 1; got '1'$"),
        ("a,a,b\n1,2,3\n", "a", r"one of 'a', 'a', 'b'.*; got 'a', a name that several columns have$"),
        (",".join(f"c{i}" for i in range(30)) + "\n" + ",".join("1" * 30), "y", r"'c19', \.\.\. \(30 in all\), or an index"),
        ("a,b,c\n1,2,3\n4,,6\n7,,9\n", "c", r"column 'b' of .* has a missing value in row 1 \(the first is 0\)"),
        ("a,b,c\n1,2,3\n4,n/a,6\n", "c", r"column 'b' of .* has a missing value in row 1"),
        ("1,2,3\n4,NaN,6\n", 0, r"column 1 of .* has a missing value in row 1"),
        ("1,,3\n4,5,6\n", 0, r"column 1 of .* has a missing value in row 0"),
        ("a,b,c\n1,2,3\n4,inf,6\n", "c", r"column 'b' of .* has an infinite value in row 1"),
        ("a,b\n1,2\n3,?\n", "b", r"column 'b' of .* has a missing value in row 1"),
        ("a,b\n1,no\n3,\n", "b", r"column 'b' of .* has a missing value in row 1"),
        ("a,city,b,day\n1,Rome,2,?\n3,Oslo,4,May\n", "a", r"are not: 'city' \('Rome' in row 0\), 'day' \('May' in row 1\)\."),
        ("a,b\n1,20\n2,unknown\n3,30\n", "b", r"target must be .*; column 'b' of .* has the text 'unknown' in row 1\. Pass"),
        ("a,b\n1,2\n3\n", "b", r"column 'b' of .* has a missing value in row 1"),
        ("a,b\n1,2,3\n", "b", r"Expected 2 fields in line 2, saw 3$"),
        ("1,2\n3,4\n\n5,6,7\n", -1, r"must be delimited text in UTF-8: .* Expected 2 fields in line 4, saw 3"),
        ("a,b\n", "b", r"table\.csv has no rows"),
        ("", "b", r"table\.csv has no rows"),
        ("\n\n", 0, r"table\.csv has no rows"),
        (" \n", 0, r"table\.csv has no rows"),
        ('a,b\n1,"2\n3,4\n', "b", r"table\.csv must be delimited text in UTF-8: .* EOF inside string"),
        ("a\n1\n2\n", "a", r"table\.csv has no features besides the target"),
    ],
)
def test_what_is_wrong_with_a_table(write, text, target, message):
    with pytest.raises(ValueError, match=message):
        datasets.load(write(text), target=target)


def test_text_is_no_regression_target(write):
    with pytest.raises(ValueError, match=r"has the text 'no' in row 0\. Pass .*; got classification=False"):
        datasets.load(write("a,b\n1,no\n3,yes\n"), target="b", classification=False)


@pytest.mark.parametrize(
    "content",
    ["größe,b\n1,2\n".encode("latin-1"), b"a,b\n1,2\0\n", "a,b\n1,2\n".encode("utf-16")],
    ids=["latin-1", "zero", "utf-16"],
)
def test_what_is_not_text(tmp_path, content):
    (tmp_path / "table.csv").write_bytes(content)
    with pytest.raises(ValueError, match=r"table\.csv must be delimited text in UTF-8: "):
        datasets.load(tmp_path / "table.csv", target=-1)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_a_missing_file_is_named(tmp_path, suffix):
    with pytest.raises(FileNotFoundError, match=rf"name must be a file that exists; got '.*none\.{suffix}'"):
        datasets.load(tmp_path / f"none.{suffix}", target=0)


def test_npz_has_features_and_target(tmp_path):
    X, y = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32), np.array([3, 1, 1, 3, 5, 5])
    np.savez(tmp_path / "data.npz", X=X, y=y, kind=np.array(["b", "a", "a", "b", "c", "b"]), good=y > 2)
    data = datasets.load(tmp_path / "data.npz")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)
    assert (data.X.dtype, data.y.dtype, data.classes) == (np.float32, np.float64, None)
    kinds = datasets.load(tmp_path / "data.npz", target="kind")
    np.testing.assert_array_equal(kinds.y, [1, 0, 0, 1, 2, 1])
    assert kinds.classes == ("a", "b", "c")
    good = datasets.load(tmp_path / "data.npz", target="good")
    np.testing.assert_array_equal(good.y, y > 2)
    assert good.classes == (False, True)
    assert datasets.load(tmp_path / "data.npz", target="good", classification=False).classes is None
    assert datasets.load(tmp_path / "data.npz", classification=True).classes == (1, 3, 5)


@pytest.mark.parametrize(
    ("arrays", "target", "message"),
    [
        ({"a": np.eye(3), "y": np.ones(3)}, None, r"must have an array 'X' \(samples, features\); it has 'a', 'y'"),
        ({"X": np.eye(3), "z": np.ones(3)}, None, r"target must be an array of .*npz, which has 'X', 'z'; got 'y'"),
        ({"X": np.eye(3), "y": np.ones(3)}, -1, r"which has 'X', 'y'; got -1"),
        ({"X": np.ones(3), "y": np.ones(3)}, None, r"array 'X' of .* must be numbers .*; got float64 \(3,\)"),
        ({"X": np.eye(3).astype(str), "y": np.ones(3)}, None, r"array 'X' of .* must be numbers .*; got <U"),
        ({"X": np.eye(3), "y": np.ones((3, 1))}, None, r"array 'y' of .* must have shape \(3,\), .*; got \(3, 1\)"),
        ({"X": np.eye(3), "y": np.ones(4)}, None, r"array 'y' of .* must have shape \(3,\), .*; got \(4,\)"),
        ({"X": np.eye(3), "y": np.ones(3, complex)}, None, r"array 'y' of .* has dtype complex128"),
        ({"X": np.eye(3), "y": np.array(["a", None, "b"])}, None, r"holds Python objects.*dtype=str"),
        ({"X": np.array([[1, 2], [3, np.nan]]), "y": np.ones(2)}, None, r"column 1 of .* has a missing value in row 1"),
        ({"X": np.eye(3), "y": np.array([1, 2, np.inf])}, None, r"array 'y' of .* has an infinite value in row 2"),
        ({"X": np.eye(3), "y": np.array(["a", "", "b"])}, None, r"array 'y' of .* has a missing value in row 1"),
        ({"X": np.empty((0, 3)), "y": np.empty(0)}, None, r"has no rows"),
        ({"X": np.empty((3, 0)), "y": np.empty(3)}, None, r"has no features besides the target"),
    ],
)
def test_what_is_wrong_with_an_npz_file(tmp_path, arrays, target, message):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        datasets.load(tmp_path / "data.npz", target=target)


def test_a_file_that_only_calls_itself_npz(write):
    with pytest.raises(ValueError, match=r"data\.npz is not an npz file"):
        datasets.load(write(HOUSES, "data.npz"))


def test_parquet_from_pandas(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    rng = np.random.default_rng(2)
    frame = pandas.DataFrame({"x": rng.standard_normal(50), "count": rng.integers(0, 9, 50), "flag": rng.random(50) < 0.5})
    frame["kind"] = rng.choice(["dog", "cat", "eel"], 50)
    frame["size"] = pandas.Categorical(rng.choice(["S", "M"], 50))
    frame = frame[frame["x"] > -1]  # leaves an index that Parquet keeps, which is no feature
    frame.to_parquet(tmp_path / "table.parquet")
    back = pandas.read_parquet(tmp_path / "table.parquet")
    kinds = datasets.load(tmp_path / "table.parquet", target="kind")
    features = pandas.get_dummies(back.drop(columns="kind"), columns=["size"])
    assert kinds.columns.features == tuple(features.columns)
    np.testing.assert_array_equal(kinds.X, features.to_numpy(dtype=float))
    np.testing.assert_array_equal(kinds.y, back["kind"].map({"cat": 0, "dog": 1, "eel": 2}))
    assert kinds.classes == ("cat", "dog", "eel")
    frame.drop(columns="kind").to_parquet(tmp_path / "sizes.parquet")
    assert datasets.load(tmp_path / "sizes.parquet", target="size").classes == ("M", "S")
    frame[["x", "count"]].to_parquet(tmp_path / "counts.parquet")
    counts = datasets.load(tmp_path / "counts.parquet", target=-1)
    np.testing.assert_array_equal(counts.y, back["count"])
    assert not counts.classification


def test_parquet_keeps_what_data_frames_are_made_of(tmp_path):
    frame = pandas.DataFrame({"1": [1.5, 2.5], "2": [3, 4], "3": [True, False], "4": pandas.Categorical([7, 8])})
    frame = frame.astype({"1": "Float32", "2": "Int64", "3": "boolean"})
    frame.to_parquet(tmp_path / "table.parquet")
    data = datasets.load(tmp_path / "table.parquet", target="3")
    np.testing.assert_array_equal(data.X, [[1.5, 3, 7], [2.5, 4, 8]])
    assert data.classes == (False, True)
    frame.loc[1, "2"] = None
    frame.to_parquet(tmp_path / "table.parquet")
    with pytest.raises(ValueError, match=r"column '2' of .* has a missing value in row 1"):
        datasets.load(tmp_path / "table.parquet", target="3")
    frame[["1", "3"]].set_axis([0, 1], axis="columns").to_parquet(tmp_path / "table.parquet")  # names are words in the file
    assert datasets.load(tmp_path / "table.parquet", target="1").classes == (False, True)


def test_kinds_of_parquet_columns(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import datetime
    from decimal import Decimal

    from pyarrow import parquet

    def written(**columns):
        parquet.write_table(pa.table(columns), tmp_path / "table.parquet")
        return tmp_path / "table.parquet"

    X, y = datasets.load(written(a=[Decimal("1.25"), Decimal("2.50")], b=pa.array([1, 2], pa.int8()), y=[7, 9]), target="y")
    np.testing.assert_array_equal(X, [[1.25, 1], [2.5, 2]])
    np.testing.assert_array_equal(y, [7, 9])
    assert datasets.load(written(a=pa.array([1, 2], pa.float32()), y=[1, 2]), target="y").X.dtype == np.float32
    for column in ([1, None], [1.5, None], [True, None], [Decimal("1.5"), None], [0.5, np.nan], ["a", None]):
        with pytest.raises(ValueError, match=r"column 'y' of .* has a missing value in row 1"):
            datasets.load(written(a=[1, 2], y=column), target="y")
    for column in ([1, None], [True, None], [Decimal("1.5"), None]):
        with pytest.raises(ValueError, match=r"column 'a' of .* has a missing value in row 1"):
            datasets.load(written(a=column, y=[1, 2]), target="y")
    with pytest.raises(ValueError, match=r"column 'a' of .* has a missing value in row 0"):
        datasets.load(written(a=[None, None], y=[1, 2]), target="y")
    days = [datetime.date(2020, 1, 1)] * 2
    with pytest.raises(ValueError, match=r"are not: 'day' \(.*2020.* in row 0\), 'list' \(.* in row 0\)"):
        datasets.load(written(day=days, list=[[1], [2]], y=[1, 2]), target="y")
    with pytest.raises(
        ValueError, match=r"target must hold numbers or text; column 'day' of .*, such as datetime\.date\(2020, 1, 1\)"
    ):
        datasets.load(written(x=[1, 2], day=days), target="day")
    with pytest.raises(ValueError, match=r"target must be a column of .*, one of 'x', 'y', .*; got 'z'"):
        datasets.load(written(x=[1, 2], y=[1, 2]), target="z")
    with pytest.raises(ValueError, match=r"table\.parquet has no rows"):
        datasets.load(written(x=pa.array([], pa.float64()), y=pa.array([], pa.float64())), target="y")
    (tmp_path / "table.parquet").write_text(HOUSES)
    with pytest.raises(ValueError, match=r"table\.parquet is not a Parquet file: "):
        datasets.load(tmp_path / "table.parquet", target="price")


def test_parquet_without_its_reader_says_what_to_install(monkeypatch, write):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"reading .*table.parquet needs pyarrow: pip install consensus-opt\[parquet\]$"):
        datasets.load(write(HOUSES, "table.parquet"), target=0)


def test_a_long_word_is_shortened_in_messages(write):
    with pytest.raises(ValueError, match=r"are not: 'a' \('xx.{1,200} in row 0\)\. Name"):
        datasets.load(write("a,b\n" + 200_000 * "x" + ",2\n"), target="b")


def test_a_table_goes_on_to_folds(write):
    rng = np.random.default_rng(3)
    lines = [f"{a:.3f},{b:.3f},{'high' if a > b else 'low'}" for a, b in rng.standard_normal((40, 2))]
    data = datasets.load(write("a,b,kind\n" + "\n".join(lines)), target="kind")
    for fold in datasets.folds(*data, k=4, classification=data.classification):
        assert set(fold.y_test) == {0, 1}
        np.testing.assert_allclose(fold.X.std(axis=0), 1, rtol=1e-12)
