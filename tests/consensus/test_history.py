"""What a run recorded comes back as it went in, from memory and from a file."""

import copy
import pickle

import numpy as np
import pandas
import pytest

from consensus.history import History
from tests.helpers.histories import NUMBERS, ROWS, bits, recorded
from tests.helpers.refusals import refusals


def test_columns_are_arrays_in_the_order_of_the_rows():
    history = recorded()
    assert list(history) == ["round", "objective", "agent_objective", "messages", "seconds", "narrow"]
    assert list(history.keys()) == [name for name, _ in history.items()] == list(dict(history)) == list(history)
    assert (history.rows, len(history), len(history.values())) == (ROWS, 6, 6)
    for name, column in history.items():  # a mapping's law: what there is, is found
        np.testing.assert_array_equal(history[name], column)
        np.testing.assert_array_equal(history.get(name), column)
    assert history["round"].tolist() == [10 * row for row in range(ROWS)]
    assert history["round"].dtype.kind == "i"
    assert history["messages"].tolist() == [2**62 + row for row in range(ROWS)]
    assert bits(history["objective"]) == bits(NUMBERS)
    assert history["agent_objective"].shape == (ROWS, 3)
    np.testing.assert_array_equal(history.last()["agent_objective"], history["agent_objective"][-1])
    assert "objective" in history
    assert all(other not in history and history.get(other) is None for other in ("gap", "agent_objective_0", 3, None))


def test_a_column_is_a_copy():
    history = recorded()
    history["seconds"][...] = -1
    history["agent_objective"][...] = -1
    assert history["seconds"].min() == 0
    np.testing.assert_array_equal(history["agent_objective"], recorded()["agent_objective"])


def test_a_row_is_kept_as_it_was_when_it_was_appended():
    history, w = History(), np.zeros(2)
    for row in range(3):
        w += 1
        history.append({"round": row, "w": w})
    assert history["w"].tolist() == [[1, 1], [2, 2], [3, 3]]


@pytest.mark.parametrize(
    "row",
    [{"round": 10}, {"round": 10, "objective": 1.0, "gap": 0.5}, {"round": 10, "gap": 0.5}, {}],
    ids=["missing", "additional", "other", "empty"],
)
def test_a_row_with_wrong_columns_is_refused_and_not_recorded(row):
    history = History()
    history.append({"round": 0, "objective": 2.5})
    with pytest.raises(ValueError, match=r"a row must have the columns \['round', 'objective'\]; got \[") as caught:
        history.append(row)
    assert str(caught.value).endswith(str(list(row)))
    assert history.rows == 1
    assert history["objective"].tolist() == [2.5]


def test_the_order_of_a_rows_keys_does_not_matter():
    history = History()
    history.append({"round": 0, "objective": 2.5})
    history.append({"objective": 1.5, "round": 1})
    assert history["objective"].tolist() == [2.5, 1.5]
    assert list(history.last()) == ["round", "objective"]


def test_a_dictionary_has_all_columns_and_cannot_change_the_record():
    history = recorded()
    columns = dict(history)
    assert list(columns) == list(history)
    for name in history:
        assert columns[name].dtype == history[name].dtype
        np.testing.assert_array_equal(columns[name], history[name])
        columns[name][...] = 0
        assert history[name].any()
    history.append(history.last())
    assert len(columns["objective"]) == ROWS == history.rows - 1
    with pytest.raises(TypeError, match="does not support item assignment"):
        history["gap"] = 0
    assert not any(hasattr(history, name) for name in ("update", "pop", "clear", "setdefault"))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, History.copy, lambda h: pickle.loads(pickle.dumps(h))])
def test_a_copy_goes_on_by_itself(copied):
    history = recorded()
    other = copied(history)
    assert isinstance(other, History)
    other.append(history.last())
    assert (history.rows, other.rows) == (ROWS, ROWS + 1)
    for name in history:
        assert bits(other[name][:ROWS]) == bits(history[name])
        assert other[name].dtype == history[name].dtype


def test_a_row_that_is_refused_leaves_the_others_as_they_are():
    history = recorded(3)
    row = history.last() | {"narrow": "text"}
    with pytest.raises(TypeError, match="narrow of a row must be a number"):
        history.append(row)
    assert {len(history[name]) for name in history} == {history.rows} == {3}


def test_columns_have_the_dtype_of_all_their_values():
    values = [1, True, 2**60, 0.5, np.float32(0.1), 3]
    history = History()
    for count, value in enumerate(values, start=1):
        history.append({"x": value})
        assert history["x"].dtype == np.array(values[:count]).dtype
        assert history["x"].tolist() == np.array(values[:count]).tolist()


@pytest.mark.parametrize(
    "row", [None, 3, "round", [], object(), {3: 1.0}, {"x": "word"}, {"x": None}, {"x": 1j}, {"x": 10**30}]
)
def test_what_is_no_row_is_refused(row):
    history = History()
    history.append({"x": 1})
    with pytest.raises(TypeError, match=r"row must be a mapping|x of a row must be a number"):
        history.append(row)
    assert history["x"].tolist() == [1]


def test_a_row_of_another_shape_is_refused():
    history = History()
    history.append({"x": np.zeros(3)})
    for value in (np.zeros(4), 1.0):
        with pytest.raises(ValueError, match=r"x of a row must have the shape of the rows before, \(3,\)"):
            history.append({"x": value})


test_refusals = refusals(
    (lambda: recorded()["gap"], KeyError, r"no column 'gap'; there are round, objective, agent_objective"),
    (lambda: np.array(recorded()), TypeError, r"take history\.to_frame\(\)"),
    (lambda: pandas.DataFrame(recorded()), TypeError, r"take history\.to_frame\(\)"),
    *((lambda act=act: act(History()), ValueError, "the history has no rows yet") for act in (History.last, History.drop_last)),
)
