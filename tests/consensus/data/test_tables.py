"""Tables of one's own in delimited text."""

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_iris

from consensus import datasets
from consensus.data import Columns

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


@pytest.mark.parametrize(
    ("text", "categories", "error", "words"),
    [
        (TOWNS, ["city"], ValueError, r"categories must be a column of .*csv, one of 'age', 'town', .*; got 'city'$"),
        (TOWNS, ["kind"], ValueError, r"categories must be features; got the target, 'kind'$"),
        (TOWNS, "town", TypeError, r"categories must be a list of columns, by name or index; got 'town'$"),
        (TOWNS, [None], TypeError, r"categories must be a list of columns"),
        (TOWNS, 3, TypeError, r"categories must be a list of columns"),
        (TOWNS, None, TypeError, r"categories must be a list of columns"),
        (TOWNS, [], ValueError, r"must be numbers or categories; .* are not: 'town' \('Rome' in row 0: categories=\['town'\]"),
        (
            TOWNS.replace("Oslo", " "),
            ["town"],
            ValueError,
            r"csv has missing values in 'town' \(1\) of 3 rows: .*missing='drop'",
        ),
        (TOWNS.replace("47", "x"), ["town"], ValueError, r"are not: 'age' \('x' in row 1, among 2 numbers: na_values=\['x'\]"),
        (TOWNS.replace("47", ""), ["town"], ValueError, r"csv has missing values in 'age' \(1\) of 3 rows"),
        (TOWNS.replace("zip", "age"), ["town"], ValueError, r"csv must have names of their own; got more than one of 'age'"),
    ],
)
def test_faults_of_categories(load, text, categories, error, words):
    with pytest.raises(error, match=words):
        load(text, "kind", categories=categories)


MANY = ",".join(f"c{i}" for i in range(30)) + "\n" + ",".join("1" * 30)


@pytest.mark.parametrize(
    ("text", "target", "words"),
    [
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
        (
            "a,city,b,day\n1,Rome,2,June\n3,Oslo,4,May\n",
            "a",
            r"are not: 'city' \('Rome' in row 0: .*; 'day' \('June' in row 0: ",
        ),
        ("a,b\n" + 200_000 * "x" + ",2\n", "b", r"are not: 'a' \('xx.{1,200} in row 0: categories"),
        ("a,b\n1,20\n2,unknown\n3,30\n", "b", r"target must be .*; column 'b' of .* has the text 'unknown' in row 1 .*\. Pass"),
        ("a,b\n1,2\n3\n", "b", r"line 3 has 1 cells between ',', not 2: '3'"),
        ("a,b\n1,2,3,4\n", "b", r"first line has 2 cells, 'a,b', and others 4"),
        ("1,2\n3,4\n\n5,6,7\n", -1, r"must be delimited text: line 4 has 3 cells between ',', the first 2"),
        *((text, 0, r"table\.csv has no rows") for text in ("a,b\n", "", "\n\n", " \n")),
        ('a,b\n1,"2\n3,4\n', "b", r"table\.csv must be delimited text: .* EOF inside string"),
        ("a\n1\n2\n", "a", r"table\.csv has no features besides the target"),
    ],
)
def test_faults_of_a_table(load, text, target, words):
    with pytest.raises(ValueError, match=words):
        load(text, target)


def test_text_is_no_regression_target(load):
    with pytest.raises(ValueError, match=r"has the text 'no' in row 0 .*\. Pass .*; got classification=False"):
        load("a,b\n1,no\n3,yes\n", classification=False)


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
