"""Categories that say too much of an owner's rows are warned of before anything is sent."""

import warnings

import numpy as np
import pandas as pd
import pytest

from consensus.data import own
from tests.helpers import owners
from tests.helpers.owners_on_threads import OnThreads, on_ranks
from tests.helpers.ranks_on_threads import together


@pytest.fixture
def tables():
    return [table.drop(columns="outcome") for table in owners.hospitals()]


def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if one.category is UserWarning]


@pytest.mark.parametrize(
    "made",
    [
        lambda rows: [f"P-{row}" for row in range(rows)],
        lambda rows: np.arange(rows) + 40_000,  # numbers that are named in categories
        lambda rows: [f"visitor {row // 2}" for row in range(rows)],  # two rows each
        lambda rows: ["none"] * (rows // 3) + [f"note {row}" for row in range(rows - rows // 3)],
    ],
)
def test_a_column_that_nearly_identifies_rows_is_warned_of(tables, made):
    tables[1]["patient"] = made(len(tables[1]))
    others = [table.assign(patient=np.resize(["u", "v"], len(table))) for table in tables]
    tables = [others[0], tables[1], *others[2:]]
    said = warned(lambda: own(tables, "days", categories=["ward", "patient"]))
    different = tables[1].patient.nunique()
    expected = (
        f"the column 'patient' of data[1] nearly identifies rows: it has {different} different texts in {len(tables[1])} rows"
    )
    assert [text for text in said if text.startswith(expected)]
    assert all("drop=['patient'] leaves it out" in text for text in said if "identifies" in text)
    dropped = warned(lambda: own(tables, "days", categories=["ward"], drop=["patient"]))  # the remedy
    assert not [text for text in dropped if "patient" in text]


def test_texts_of_one_row_and_of_one_owner_are_warned_of(tables):
    said = warned(lambda: own(tables, "days", categories=["ward"]))
    assert [text for text in said if text.startswith("in the column 'ward' 'C' occurs at owner 2 alone")]
    tables[0].loc[4, "ward"] = "isolation"
    said = warned(lambda: own(tables, "days", categories=["ward"]))
    assert [text for text in said if text.startswith("the column 'ward' of data[0] has texts of one row each, 'isolation'")]
    assert [text for text in said if text.startswith("in the column 'ward' 'isolation' occurs at owner 0 alone")]


def test_classes_of_one_owner_are_warned_of():
    rng = np.random.default_rng(0)
    tables = [pd.DataFrame({"age": rng.normal(size=12), "ill": ["flu", "none"] * 6}) for _ in range(3)]
    assert not warned(lambda: own(tables, "ill"))
    tables[2].loc[[3, 4], "ill"] = "plague"
    assert [text[:55] for text in warned(lambda: own(tables, "ill"))] == [
        "in the target 'ill' 'plague' occurs at owner 2 alone, s"
    ]
    tables[2].loc[4, "ill"] = "flu"
    assert "the target of data[2] has texts of one row each, 'plague'" in warned(lambda: own(tables, "ill"))[0]


def test_ordinary_categories_are_not_warned_of(tables):
    common = [table.assign(ward=np.resize(["A", "B", "C"], len(table))) for table in tables]
    assert not warned(lambda: own(common, "days", categories=["ward"]))


def test_the_warning_comes_before_anything_is_sent(tables):
    """Who makes warnings errors sends names of columns, and no text of a category; others hear that the table is rejected."""
    tables[1]["ward"] = [f"P-{row}" for row in range(len(tables[1]))]
    heard = []

    class Listening(OnThreads):
        def allgather(self, items):
            heard.append(repr(items := list(items)))
            return super().allgather(items)

    def told(ranks):
        with pytest.raises((ValueError, UserWarning), match=r"owner 1 is rejected there|nearly identifies rows") as caught:
            own(tables[ranks.me], "days", categories=["ward"], engine=Listening(ranks))
        return str(caught.value)

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        said = together(4, told)
    assert not any("P-" in text for text in [*heard, *said])
    assert said[0] == "the table of owner 1 is rejected there: its own process says why"


def test_on_ranks_an_owner_is_warned_of_its_own_table(tables):
    tables[1]["ward"] = [f"P-{row}" for row in range(len(tables[1]))]
    said = warned(lambda: on_ranks(tables, "days", categories=["ward"]))
    assert [text for text in said if text.startswith("the column 'ward' of data nearly identifies rows")]


def test_the_remedy_of_texts_is_not_to_send_them():
    frame = pd.DataFrame({"name": ["Ada", "Ole", "Eva", "Kim"], "days": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(ValueError, match=r"4 different texts in 4 rows: .*leaves it out") as caught:
        own([frame], "days")
    assert "categories=" not in str(caught.value)
    assert "'category'" not in str(caught.value)
