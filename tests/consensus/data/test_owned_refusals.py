"""What owners cannot agree on is refused by name on all; what is wrong in a table is told to its owner alone."""

import numpy as np
import pandas as pd
import pytest

from consensus.data import own
from tests.helpers import owners
from tests.helpers.owners_on_threads import OnThreads, errors_of
from tests.helpers.ranks_on_threads import together


@pytest.fixture
def tables():
    return [table.drop(columns="outcome") for table in owners.hospitals()]


def test_a_missing_column_is_refused_by_name_on_all(tables):
    tables[2] = tables[2].drop(columns="smokes")
    tables[1] = tables[1].assign(weight=70.0)
    told = errors_of(tables, "days", categories=["ward"])
    words = "all 4 owners must have the same columns: 'smokes' is missing at owner 2; 'weight' is missing at owners 0, 2, 3"
    assert told == [f"ValueError: {words}"] * 4
    with pytest.raises(ValueError, match=words):
        own(tables, "days", categories=["ward"])


def test_a_missing_target_or_category_is_refused_by_name_on_all(tables):
    for name in ("days", "ward"):
        broken = [*tables[:3], tables[3].drop(columns=name)]
        told = errors_of(broken, "days", categories=["ward"])
        assert told == [f"ValueError: all 4 owners must have the same columns: {name!r} is missing at owner 3"] * 4


def test_what_is_wrong_in_a_table_is_told_to_its_owner_alone(tables):
    tables[1] = tables[1].assign(age=["Ole Nordmann", *tables[1].age.tolist()[1:]])
    told = errors_of(tables, "days", categories=["ward"])
    assert "'age' ('...' in row 0, among 24 numbers" in told[1]  # an owner finds it there; others may read what ranks print
    with pytest.raises(ValueError, match=r"'age' \('Ole Nordmann' in row 0, among 24 numbers"):
        own([tables[1]], "days", categories=["ward"])
    assert {*told[:1], *told[2:]} == {"ValueError: the table of owner 1 is rejected there: its own process says why"}
    tables[1] = "nowhere.csv"
    told = errors_of(tables, "days", categories=["ward"])
    assert told[1] == "FileNotFoundError: data must be a file that exists; got 'nowhere.csv'"
    assert "nowhere" not in told[0]


SECRET = "Ole Nordmann, 030251"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda table: table.assign(age=[SECRET, *table.age.tolist()[1:]]),
        lambda table: table.assign(age=[f"{SECRET}-{row}" for row in range(len(table))]),
        lambda table: table.assign(days=[SECRET, *table.days.tolist()[1:]]),
        lambda table: table.assign(age=table.age.map(lambda age: f"{age} {SECRET} and much more that messages cut off")),
    ],
)
@pytest.mark.parametrize("file", [False, True])
def test_no_error_on_ranks_shows_a_cell(tables, spoil, file, tmp_path):
    tables[1] = spoil(tables[1])
    if file:
        tables[1].to_csv(tmp_path / "own.csv", index=False)
        tables[1] = str(tmp_path / "own.csv")
    told = errors_of(tables, "days", categories=["ward"])
    assert all(told)
    assert not any("Nordmann" in text or "0302" in text for text in told)


def test_an_unreadable_file_is_told_without_its_lines(tables, tmp_path):
    path = tmp_path / "own.csv"
    path.write_text(f"age,ward,days\n3,A,4\n{SECRET},A,4,5\n")
    tables[1] = str(path)
    told = errors_of(tables, "days", categories=["ward"])
    assert "Nordmann" not in "".join(told)
    assert "in a process without ranks, says why" in told[1]
    with pytest.raises(ValueError, match="line"):  # the remedy
        own([str(path)], "days", categories=["ward"])


def test_kinds_that_differ_are_refused_by_name_on_all(tables):
    coded = [table.assign(ward=table.ward.map({"A": 0, "B": 1, "C": 2})) for table in tables]
    mixed = [tables[0].astype({"ward": "category"}), *coded[1:]]
    told = errors_of(mixed, "days")
    words = "column 'ward' is categories at some owners, and numbers at owners 1, 2, 3: name it in categories at all of them"
    assert told == [f"ValueError: {words}"] * 4
    mixed = [*coded[:3], coded[3].assign(days=coded[3].days.map({day: f"d{day}" for day in coded[3].days}))]
    told = errors_of(mixed, "days")
    assert told[0] == (
        "ValueError: the target 'days' must be classes or numbers at all owners; got 'numbers' at owners 0, 1, 2, 'classes' at "
        "owner 3: classification=True makes them classes"
    )
    told = together(4, lambda ranks: errors_of_target(ranks, coded[ranks.me], ["days", "age", "days", "days"][ranks.me]))
    assert "target must be the same column at all owners; got 'days' at owners 0, 2, 3, 'age' at owner 1" in told[0]
    assert len(set(told)) == 1


def errors_of_target(ranks, table, target):
    with pytest.raises(ValueError, match="target") as error:
        own(table, target, engine=OnThreads(ranks))
    return str(error.value)


@pytest.mark.parametrize(
    ("data", "settings", "error"),
    [
        ([], {}, "data must be a table, or a list of tables with one for each owner; got none"),
        (3, {}, "data must be a data frame, or the path of a file; got 3"),
        (
            "a.npz",
            {},
            r"data must be a file that ends in .csv, .tsv, .txt, .data, .parquet, .feather, .svm, .svmlight, .*; got 'a.npz'",
        ),
        (pd.DataFrame({"days": []}), {}, "data has no rows"),
        (pd.DataFrame({"days": [1.0, 2.0]}), {}, "data has no features besides the target"),
        (pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "a", "days"]), {}, "columns of data must have names of their own"),
        (pd.DataFrame({"a": [1.0, np.nan], "days": 1.0}), {}, r"data has missing values in 'a' \(1\) of 2 rows"),
        (pd.DataFrame({"a": [1.0, 2.0], "days": 1.0}), {"categories": "a"}, "categories must be a list of columns"),
        (pd.DataFrame({"a": [1.0, 2.0], "days": 1.0}), {"classification": 1.5}, "classification must be one of"),
        (pd.DataFrame({"a": [1.0, 2.0], "days": 1.0}), {"engine": "mpi"}, "engine must be an engine, such as"),
    ],
)
def test_bad_arguments_are_named(data, settings, error):
    with pytest.raises((ValueError, TypeError), match=error):
        own(data, "days", **settings)
