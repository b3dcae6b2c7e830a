"""Files are read as they were meant, or refused with the option that reads them: headers, delimiters, numbers."""

import gzip
import io
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import consensus
from consensus import _columns, datasets
from consensus.tables import looks, readers

RNG = np.random.default_rng(3)


@pytest.fixture
def load(tmp_path):
    def load(text, target=-1, name="t.csv", encoding="utf-8", **settings):
        (tmp_path / name).write_bytes(text.encode(encoding))
        return datasets.load(tmp_path / name, target=target, **settings)

    return load


SURE = {  # text, settings, X, y or classes
    "array by pandas": (pd.DataFrame([[1.5, 2.0, 7.0], [0.5, 1.0, 9.0]]).to_csv(index=False), {}, [[1.5, 2], [0.5, 1]], [7, 9]),
    "array and index by pandas": (pd.DataFrame([[1, 0, 5], [0, 1, 4]]).to_csv(), {}, [[1, 0], [0, 1]], [5, 4]),
    "frame and index by pandas": (pd.DataFrame({"a": [3.5, 4], "b": [1, 2]}).to_csv(), {}, [[3.5], [4]], [1, 2]),
    "named index twice": ("Unnamed: 0,a,b\n0,3,1\n1,4,2\n", {}, [[3], [4]], [1, 2]),
    "row names by R": ('"mpg","cyl"\n"Mazda RX4",21,6\n"Datsun 710",22.8,4\n', {}, [[21], [22.8]], [6, 4]),
    "blanks by R": ('"mpg" "cyl"\n"Mazda" 21 6\n"Datsun" 22.8 4\n', {"name": "t.txt"}, [[21], [22.8]], [6, 4]),
    "blanks": (" 5.1  3.5   1\n 4.9\t3.0   2\n", {"name": "u.data"}, [[5.1, 3.5], [4.9, 3]], [1, 2]),
    "wavelengths": ("400,410,420\n.11,.2,7\n.12,.3,8\n", {}, [[0.11, 0.2], [0.12, 0.3]], [7, 8]),
    "commas at the ends": ("a,b,\n1,2,\n3,4,\n", {}, [[1], [3]], [2, 4]),
    "commas at the ends of samples": ("a,b\n1,2,\n3,4,\n", {}, [[1], [3]], [2, 4]),
    "bars": ("a|b\n1|2\n3|4\n", {}, [[1], [3]], [2, 4]),
    "sep= of Excel": ("sep=|\na|b\n1|2\n3|4\n", {}, [[1], [3]], [2, 4]),
    "header of two lines": ('"load\n(kW)",b\n1,2\n3,4\n', {}, [[1], [3]], [2, 4]),
    "semicolons and a comma in text": ("a;b\n1;2\n3;4\n", {}, [[1], [3]], [2, 4]),
    "booleans": ("a,b\nTRUE,2\nFALSE,4\n", {}, [[1], [0]], [2, 4]),
    "UTF-16": ("a,b\n1,2\n3,4\n", {"encoding": "utf-16"}, [[1], [3]], [2, 4]),
    "commas": ("a;b\n1,5;2\n-0,25;1e2\n", {"decimal": ","}, [[1.5], [-0.25]], [2, 100]),
    "quoted commas": ('a,b\n"1,5",2\n"2,5",4\n', {"decimal": ","}, [[1.5], [2.5]], [2, 4]),
    "thousands": ('a,b\n"1,500",2\n"12",4\n', {"thousands": ","}, [[1500], [12]], [2, 4]),
    "German": ("a;b\n1.500,5;2\n12,25;4\n", {"thousands": ".", "decimal": ","}, [[1500.5], [12.25]], [2, 4]),
    "blanks between thousands": ("a;b\n1 500;2\n12;4\n", {"thousands": " "}, [[1500], [12]], [2, 4]),
    "comments": ("# of 2024\na,b\n1,2\n# gap\n3,4\n", {"comment": "#"}, [[1], [3]], [2, 4]),
    "names": ("1,2\n3,4\n", {"header": ["a", "b"]}, [[1], [3]], [2, 4]),
    "header": ("2020,2021\n3,4\n5,6\n", {"header": True}, [[3], [5]], [4, 6]),
    "index": ("id,a,b\n7,1,2\n9,3,4\n", {"index": "id"}, [[1], [3]], [2, 4]),
    "drop": ("id,a,b\n7,1,2\n9,3,4\n", {"drop": ["id"]}, [[1], [3]], [2, 4]),
    "features": ("id,a,c,b\n7,1,0,2\n9,3,0,4\n", {"features": ["a"]}, [[1], [3]], [2, 4]),
    "a regular expression": ("a::b\n1::2\n3::4\n", {"sep": "::"}, [[1], [3]], [2, 4]),
}


@pytest.mark.parametrize(("text", "settings", "X", "y"), SURE.values(), ids=SURE)
def test_files_are_read_as_they_were_meant(load, text, settings, X, y):
    settings = dict(settings)
    encoding = settings.pop("encoding", "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load(text, encoding=encoding, **settings)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)
    assert data.classes is None


GUESSES = {  # text, how many rows; header=True and False settle it
    "0, 1, 2 over whole numbers": ("0,1,2\n5,3,1\n6,0,2\n8,1,1\n", 3),
    "years and text": ("town,2019,2020\nOslo,1,5\nRome,2,3\n", 2),
    "years alone": ("2019,2020,2021\n10,7,5\n2,2,3\n", 2),
    "1, 2, 3": ("1,2,3\n4,5,6\n", 2),
    "two columns": ("name,2\nA,5\nB,6\n", 2),
    "text alone": ("colour,form,label\nblue,square,no\nred,square,no\n", 2),
    "one word": ("1,a\n2,b\n", 2),
}


@pytest.mark.parametrize(("text", "rows"), GUESSES.values(), ids=GUESSES)
def test_a_guessed_header_is_warned_of_with_what_settles_it(load, text, rows):
    kinds = {"categories": [0, 1] if "form" in text else [0]} if text[0].isalpha() else {}
    with pytest.warns(UserWarning, match=r"is taken for (the header|a sample): header=(True|False) says so") as seen:
        assert len(load(text, **kinds).X) == rows
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lines = text.count("\n")
        assert [len(load(text, header=header, **kinds).X) for header in (True, False)] == [lines - 1, lines]


def test_a_header_over_numbers_written_otherwise_is_one(load):
    frame = pd.DataFrame({"load": [1.5, 2.25, 3.0], "temp": [1.5, np.nan, 2.5], "price": [2.5, 3.5, 4.5]})
    text = frame.to_csv(sep=";", decimal=",")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"'load' \('1,5' in row 0: decimal commas, for which decimal=','\); 'temp'"):
            load(text)  # the text first, then what is missing
        with pytest.raises(ValueError, match=r"missing values in 'temp' \(1\) of 3 rows"):
            load(text, decimal=",")
        with pytest.raises(ValueError, match=r"'0' \('1,5' in row 0"):
            load("1,5;2\n2,5;3\n3,5;1\n", decimal=".")  # no header
        assert load("1,5;2\n2,5;3\n3,5;1\n", decimal=",").X.tolist() == [[1.5], [2.5], [3.5]]
        assert load("2019-01,2019-02\n1,2\n3,4\n").columns.names == ("2019-01",)


def test_a_sample_is_no_header(load):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load("red,round,yes\nblue,square,no\nred,square,no\n", categories=[0, 1]).X) == 3
        assert len(load("5.1,3.5,setosa\n4.9,3.0,setosa\n6.0,2.0,other\n").X) == 3
        assert len(load("3,3,1\n6,0,2\n8,1,1\n").X) == 3
        words = "\n".join(f"w{k % 9},{k}" for k in range(200))
        assert len(load(f"word,count\n{words}\n", categories=[0]).X) == 200


OTHERWISE = {  # cells, what they look like, what is read by the option, or None
    "decimal commas": (["2,5", "3,25", "10,5"], "decimal commas", ("decimal", ",")),
    "thousands": (["250,000", "1,100,000", "98,500"], "commas between thousands", ("thousands", ",")),
    "dots": (["1.250.000", "2.100.000", "3.000.000"], "points between thousands", None),
    "blanks": (["1 250", "12 100", "900"], "blanks between thousands", ("thousands", " ")),
    "percent": (["25%", "110 %", "9%"], "percentages", None),
    "dollars": (["$250", "$1,100", "$98"], "amounts of money", None),
    "euros": (["250 €", "1100 €", "98 €"], "amounts of money", None),
    "dates": (["2024-12-05", "2024-01-06", "2023-02-01"], "dates", None),
    "other dates": (["05/12/2024", "6/1/24", "01/02/2023"], "dates", None),
    "times": (["12:05", "7:30", "23:59"], "times of day", None),
    "brackets": (["(5)", "3", "(2.5)"], "numbers in brackets", None),
    "bounds": (["<0.5", "0.7", ">10"], "bounds of numbers", None),
    "unit": (["5 kg", "6.5 kg", "7 kg"], "numbers with the unit 'kg'", None),
    "underscores": (["2020_01", "2020_12", "2021_3"], "numbers with underscores", None),
}


@pytest.mark.parametrize(("cells", "what", "option"), OTHERWISE.values(), ids=OTHERWISE)
def test_numbers_written_otherwise_are_neither_classes_nor_categories(load, cells, what, option):
    text = "a;b\n" + "".join(f"{k}.5;{cell}\n" for k, cell in enumerate(cells))
    with pytest.raises(ValueError, match=rf"column 'b' of .*t\.csv has the text .*, which looks like {what}: ") as error:
        load(text, "b")
    with pytest.raises(ValueError, match=rf"'b' \(.*: {what}, for which "):
        load(text, "a")
    frame = pd.DataFrame({"a": np.arange(3.0), "b": cells})
    with pytest.raises(ValueError, match=rf"looks like {what}"):
        consensus.partition(frame[["a"]], frame["b"], agents=1)
    with pytest.raises(ValueError, match=rf"'b' \(.*: {what}"):
        consensus.partition(frame, np.arange(3.0), agents=1)
    assert load(text, "b", classification=True).classes == tuple(sorted(cells))
    if option is not None:
        assert f"{option[0]}={option[1]!r}" in str(error.value)
        read = load(text.replace(".5;", ";"), "b", **dict([option])).y
        np.testing.assert_array_equal(
            read, [float(cell.replace(" ", "").replace(",", "." if option[0] == "decimal" else "")) for cell in cells]
        )
    else:
        found = looks.look(cells)
        if found.frame:  # the remedy works when it is pasted
            code = "import pandas\nframe['b'] = " + found.frame.format("frame['b']")
            exec(code, {"frame": frame})
            assert frame["b"].dtype.kind in "fi"


@pytest.mark.parametrize(
    "cells",
    [["1st", "2nd", "3rd"], ["<=50K", ">50K", "<=50K"], ["5-10", "10-20", "5-10"], ["A1", "B2", "A1"], ["yes", "no", "no"]],
)
def test_classes_are_still_classes(load, cells):
    assert load("a;b\n" + "".join(f"{k}.5;{cell}\n" for k, cell in enumerate(cells)), "b").classes == tuple(sorted(set(cells)))


def test_columns_of_mostly_different_texts_are_no_categories(load):
    rows = "".join(f"P{k:03},{'AB'[k % 2]},{k}\n" for k in range(50))
    with pytest.raises(
        ValueError, match=r"'id' \('P000' .*, 50 different texts in 50 rows: drop=\['id'\].*'ward' .*categories=\['ward'\]"
    ):
        load("id,ward,y\n" + rows)
    assert load("id,ward,y\n" + rows, drop=["id"], categories=["ward"]).columns.features == ("ward_A", "ward_B")


CAUSES = {
    "a title": ("Report of 2024\na,b,c\n1,2,3\n", {},
     r"first line has 1 cells, 'Report of 2024', and others 3: remove it, or give load a data fr"),
    "a comment": ("% of 2024\na,b,c\n1,2,3\n", {}, r"comment='%' leaves it out"),
    "Latin-1": ("größe,b\n1,2\n", {"encoding": "latin-1"},
     r"text in UTF-8; it has the byte 0xf6: .*encoding='latin-1', which reads 'größe,b'"),
    "a byte of Windows": ("preis,€\n1,2\n", {"encoding": "cp1252"},
     r"it has the byte 0x80: .*encoding='cp1252', which reads 'preis,€'"),
    "libsvm": ("1 1:0.5 3:2\n0 2:1\n", {}, r"'0 2:1', .*as libsvm writes them: .* if its name ends with .svmlight"),
    "its header again": ("a,b\n1,2\na,b\n3,4\n", {},
     r"again as row 2, .*: header=True, na_values=\['a', 'b'\], missing='drop' leaves that out"),
    "numbers of Fortran": ("a,b\n1.0D+00,2\n2.5d-01,4\n", {}, r"numbers of Fortran, for which .*'\[dD\]', 'e', regex=True"),
    "lakhs": ("a;b\n1,00,000;2\n22,50,000;4\n", {}, r"commas between lakhs and thousands, for which .*replace\(',', ''\)"),
    "a short line": ("a,b,c\n1,2,3\n4,5\n", {}, r"line 3 has 2 cells between ',', not 3: '4,5'"),
    "a long line": ("a,b\n1,2\n4,5,6\n7,8\n9,9\n", {}, r"line 3 has 3 cells between ',', the first 2"),
    "an unknown option": ("a,b\n1,2\n", {"missing": "median"},
     r"missing must be one of 'error', 'drop', 'mean', 'indicator'; got 'median'"),
    "a name of no column": ("a,b\n1,2\n", {"drop": ["c"]}, r"drop must be a column of .*, one of 'a', 'b', .*; got 'c'"),
    "too few names": ("1,2\n3,4\n", {"header": ["a"]}, r"header must have a name for each of the 2 columns"),
    "decimal twice": ("a;b\n1;2\n", {"decimal": ",", "thousands": ","}, r"decimal and thousands must differ; got ','"),
    "a text of digits for a place": ("a;b\n1;2\n", {"index": 1.5}, r"index must be True, False or a column"),
    "features and target": ("a,b\n1,2\n", {"features": ["b"]}, r"features must be other columns than target, .*; got 'b'"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "settings", "words"), CAUSES.values(), ids=CAUSES)
def test_errors_name_the_cause_and_what_mends_it(load, text, settings, words):
    settings = dict(settings)
    encoding = settings.pop("encoding", "utf-8")
    with pytest.raises((ValueError, TypeError), match=words):
        load(text, encoding=encoding, **settings)


def test_the_remedies_of_errors_work(load, tmp_path):
    title = "Report of 2024\na,b,c\n1,2,3\n"
    np.testing.assert_array_equal(datasets.load(pd.read_csv(io.StringIO(title), skiprows=1), target="c").X, [[1, 2]])
    (tmp_path / "l.csv").write_bytes("größe,b\n1,2\n".encode("latin-1"))
    assert datasets.load(tmp_path / "l.csv", target="b", encoding="latin-1").columns.names == ("größe",)
    again = {"header": True, "na_values": ["a", "b"], "missing": "drop"}
    assert load("a,b\n1,2\na,b\n3,4\n", "b", **again).X.tolist() == [[1], [3]]
    (tmp_path / "l.svmlight").write_text("1 1:0.5 3:2\n0 2:1\n")
    assert datasets.load(tmp_path / "l.svmlight").X.toarray().tolist() == [[0.5, 0, 2], [0, 1, 0]]


@pytest.mark.parametrize("categories", [["zip"], [0], [-3]], ids=str)
def test_columns_by_place_are_counted_without_the_index(load, categories):
    text = ",zip,b,y\n0,007,1,1\n1,7,2,2\n2,007,3,3\n"
    for own in (text, text.replace("\n", ",\n")):  # with a separator at the end of each line, too
        assert load(own, "y", categories=categories).columns.features == ("zip_007", "zip_7", "b")
    named = load(text.replace(",zip", "id,zip", 1), "y", categories=categories, index="id")
    assert named.columns.features == ("zip_007", "zip_7", "b")


def test_short_lines_between_blanks_are_not_filled_up(load):
    text = "a b c\n" + "1 2 3\n" * 1200 + "4 5\n"
    with pytest.raises(ValueError, match=r"line 1202 has 2 cells .*, not 3"):
        load(text, "a", name="t.txt", missing="mean")


@pytest.mark.parametrize("sep", ["~", "^"])
def test_rare_characters_between_cells(load, sep):
    assert load("a,b\n1,2\n3,4\n".replace(",", sep), "b").X.tolist() == [[1], [3]]


def test_texts_with_colons_between_blanks_are_cells_if_it_is_said(load):
    text = "1 1:a 2:b\n2 1:a 2:b\n" * 3
    assert load(text, 0, name="t.txt", sep=" ", categories=[1, 2]).X.shape == (6, 2)


def test_times_of_day_are_no_features_of_libsvm(load):
    with pytest.raises(ValueError, match="times of day"):
        load("1 12:30 13:45\n2 12:30 13:45\n", 0, name="t.txt")


def test_compressed_files_and_feather(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": [3, 4]})
    for name in ("t.csv.gz", "t.csv.bz2", "t.csv.xz"):
        frame.to_csv(tmp_path / name, index=False)
    pytest.importorskip("pyarrow")
    frame.to_feather(tmp_path / "t.feather")
    for name in ("t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.feather"):
        np.testing.assert_array_equal(datasets.load(tmp_path / name, target="b").X, frame[["a"]])
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n" * 99)[:-9])
    with pytest.raises(ValueError, match=r"t\.csv\.gz"):
        datasets.load(tmp_path / "t.csv.gz", target="b")
    (tmp_path / "t.csv.gz").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"t\.csv\.gz is not compressed as its name says"):
        datasets.load(tmp_path / "t.csv.gz", target="b")


def test_an_index_is_no_feature_unless_it_is_said(load, caplog):
    text = pd.DataFrame({"a": [1.5, 2.5], "b": [3, 4]}, index=[7, 9]).to_csv()
    with caplog.at_level("INFO", "consensus"):
        assert load(text).X.shape == (2, 1)
    assert "is the index and no feature" in caplog.text
    assert load(text, index=False).X.tolist() == [[7, 1.5], [9, 2.5]]
    with pytest.warns(UserWarning, match="its values repeat: index=False makes it a feature"):
        assert load(pd.DataFrame({"a": [1.5, 2.5], "b": [3, 4]}, index=[7, 7]).to_csv()).X.shape == (2, 1)
    assert load("id,a,b\n0,1,2\n1,3,4\n").X.shape == (2, 2)


@pytest.mark.parametrize(("cells", "what"), [
    ([*map(str, range(40)), "12%", "abc", "x"], None),  # most of what is no number looks like nothing
    ([*map(str, range(40)), "12%", "13%", "x"], "percentages"),
    ([*map(str, range(4)), "12%", "13%", "x", "y"], None),  # nearly all of it must
    (["1", "2", "3 kg"], None),  # one cell is no unit
    (["1", "2 kg", "3 kg"], "numbers with the unit 'kg'"),
    (["1 lb", "2 kg", "3 kg"], None),
    (["1", "2", "NA"], None),
])  # fmt: skip
def test_what_cells_look_like(cells, what):
    found = looks.look(cells)
    assert (found and found.what) == what


@pytest.mark.parametrize(("value", "text"), [
    ("-0", "0"),
    (-0.0, "0"),
    ("-0.0", "0"),
    ("+7", "7"),
    ("7.50", "7.5"),
    ("007", "007"),
    (" 7 ", "7"),
    ("-1.0", "-1"),
    ("1e3", "1e3"),
])  # fmt: skip
def test_the_text_of_a_category(value, text):
    assert looks.text_of(value) == text


def test_texts_among_numbers_are_missing_ones_or_categories(load):
    def said(*cells):
        with pytest.raises(ValueError, match="features must be numbers or categories") as caught:
            load("a,b\n" + "".join(f"{cell},{row}\n" for row, cell in enumerate(cells)), "b")
        return str(caught.value)

    assert "among 3 numbers: na_values=['x']" in said(1, 2, "x", 4, "x")
    assert "categories=['a'] if these are categories" in said("x", 2, "x", 4, "x", "x", "x")
    many = [f"ward {k % 25}" for k in range(60)]  # 25 different ones, but each twice at least
    assert "categories=['a'] if these are categories" in said(*many)
    assert "different texts in 40 rows: drop=['a'] leaves it out" in said(*(f"ward {k % 25}" for k in range(40)))


@pytest.mark.parametrize(
    ("names", "rise"), [("123", True), ("321", False), ("11", False), ("5", False), ("246", True), ("124", False)]
)
def test_names_in_steps_rise(names, rise):
    assert readers._in_steps(list(names)) == rise


def test_a_number_is_within_a_column_up_to_its_ends():
    column = [2.0, float("nan"), 1.0]
    assert [readers._within(cell, column) for cell in (0.9, 1.0, 1.5, 2.0, 2.1, None)] == [
        False,
        True,
        True,
        True,
        False,
        False,
    ]
    assert not readers._within(1.0, [])


def test_two_columns_that_pandas_numbered_have_a_header(load, caplog):
    data = load("0,1\n1.5,2.5\n0.5,0.25\n")
    np.testing.assert_array_equal(data.X, [[1.5], [0.5]])
    np.testing.assert_array_equal(data.y, [2.5, 0.25])
    assert not caplog.records


def test_the_line_without_a_number_of_64_bits_is_named():
    fits = [f"{number}".encode() for number in (2**63 - 1, -(2**63) + 1, 2**62 + 1)]
    for place in range(4):
        lines = [b"a", *fits[:place], b"9" * 20, *fits[place:]]
        with pytest.raises(ValueError, match=rf"^line {place + 2} has no number of 64 bits in column 'a'"):
            _columns.numbers(b"\n".join(lines))
    assert _columns.numbers(b"a\n" + b"\n".join(fits))["a"] == [int(one) for one in fits]


@pytest.mark.parametrize(("content", "words"), [
    (gzip.compress(b"a,b\n" + 50 * b"1,2\n"), "NUL characters, and is compressed: its name must end in .gz"),
    (b"PAR1\0", "and is a Parquet file: its name must end in .parquet"),
    (b"PK\x03\x04\0", "and is a zip archive, as Excel's files are: give load the data frame that pandas.read_excel returns"),
    ("a,b\n1,2\n".encode("utf-16-le"), "as UTF-16 has: encoding='utf-16-le' reads that"),
], ids=["gzip", "Parquet", "zip", "UTF-16"])  # fmt: skip
def test_other_files_that_are_called_csv_are_named(tmp_path, content, words):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(words)):
        consensus.datasets.load(path, target="b")
    if content[:2] == b"a\0":
        assert consensus.datasets.load(path, target="b", encoding="utf-16-le").y == [2.0]


def test_classes_that_differ_by_capitals_alone_are_warned_of(load):
    with pytest.warns(UserWarning, match=r"column 'y' of .* classes that differ by capitals alone, .*: \['Yes', 'yes'\]"):
        assert load("x,y\n1,Yes\n2,yes\n3,No\n", target="y").classes == ("No", "Yes", "yes")
