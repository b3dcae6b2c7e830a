"""What a run recorded comes back as it went in, from memory and from files, and damage is found."""

import copy
import csv
import hashlib
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


# Histories in files: equal bits, and damage is found.


@pytest.mark.parametrize("agents", [1, 3])
def test_csv_comes_back_to_the_bit(tmp_path, agents):
    history = recorded(agents=agents)
    history.to_csv(tmp_path / "run.csv")
    back = History.from_csv(tmp_path / "run.csv")
    each = [f"agent_objective_{agent}" for agent in range(agents)]
    assert list(back) == ["round", "objective", *each, "messages", "seconds", "narrow"]
    assert back.rows == history.rows
    for name in ("round", "messages"):
        assert back[name].tolist() == history[name].tolist()
        assert back[name].dtype.kind == "i"
    for name in ("objective", "seconds", "narrow"):
        assert bits(back[name]) == bits(history[name])
    for agent, name in enumerate(each):
        assert bits(back[name]) == bits(history["agent_objective"][:, agent])


def test_csv_written_again_is_the_same_file(tmp_path):
    recorded().to_csv(tmp_path / "run.csv")
    History.from_csv(tmp_path / "run.csv").to_csv(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "run.csv").read_bytes()


def test_csv_has_a_header_and_a_line_a_row(tmp_path):
    history = History()
    history.append({"round": 0, "objective": 2.5, "gap": np.array([0.5, 1e-20])})
    history.append({"round": 10, "objective": 3.0, "gap": np.array([0.25, 0.0])})
    history.to_csv(tmp_path / "run.csv")
    with open(tmp_path / "run.csv", newline="") as file:
        seal, *lines = csv.reader(file)
    table = b"".join((tmp_path / "run.csv").read_bytes().splitlines(keepends=True)[1:])
    assert seal == [f"# sha256 {hashlib.sha256(table).hexdigest()}"]
    assert lines == [["round", "objective", "gap_0", "gap_1"], ["0", "2.5", "0.5", "1e-20"], ["10", "3.0", "0.25", "0.0"]]


def test_csv_is_read_by_numpy_and_pandas_too(tmp_path):
    history = recorded()
    history.to_csv(tmp_path / "run.csv")
    table = np.genfromtxt(tmp_path / "run.csv", delimiter=",", names=True, skip_header=1)
    assert bits(table["objective"]) == bits(history["objective"])
    assert bits(table["agent_objective_2"]) == bits(history["agent_objective"][:, 2])
    frame = pandas.read_csv(tmp_path / "run.csv", comment="#")
    pandas.testing.assert_frame_equal(frame, History.from_csv(tmp_path / "run.csv").to_frame(), rtol=1e-15)


def test_a_file_of_which_any_byte_was_changed_is_refused(tmp_path, caplog):
    path, history = tmp_path / "run.csv", recorded(3)
    history.to_csv(path)
    whole = path.read_bytes()
    assert (len(whole) > 500, len(History.from_csv(path)), caplog.text) == (True, 8, "")
    spoilt = [whole[:end] for end in range(len(whole))] + [whole + b"\n", whole + whole[-40:]]
    spoilt += [whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :] for place in range(len(whole))]
    for data in spoilt:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"run\.csv (is damaged: its checksum|is no history as to_csv writes it)"):
            History.from_csv(path)


def test_a_file_without_a_checksum_is_read_and_the_log_says_so(tmp_path, caplog):
    history, path = recorded(3), tmp_path / "run.csv"
    history.to_csv(path)
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    assert bits(History.from_csv(path)["objective"]) == bits(history["objective"])
    assert [record.message.partition(":")[0] for record in caplog.records] == [f"{path} has no checksum"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_table_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch, error):
    path = tmp_path / "run.csv"
    recorded(2).to_csv(path)
    before = path.read_bytes()

    def fail(*_):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", fail)
        with pytest.raises(type(error)):
            recorded().to_csv(path)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


def test_one_row_and_no_row_come_back(tmp_path):
    for rows in (0, 1):
        history = recorded(rows)
        history.to_csv(tmp_path / "run.csv")
        back = History.from_csv(tmp_path / "run.csv")
        assert back.rows == history.rows == rows
        assert all(bits(back[name]) == bits(history[name]) for name in ("round", "objective") if rows)


def test_a_table_of_pandas_has_the_columns_of_the_csv_file(tmp_path):
    history = recorded()
    history.to_csv(tmp_path / "run.csv")
    frame, written = history.to_frame(), History.from_csv(tmp_path / "run.csv")
    pandas.testing.assert_frame_equal(frame, pandas.DataFrame(dict(written)), check_dtype=False)  # of float32
    assert list(frame.columns) == list(written)
    for name in written:
        assert bits(frame[name]) == bits(written[name])
    for agent in range(3):
        assert bits(frame[f"agent_objective_{agent}"]) == bits(history["agent_objective"][:, agent])
    frame["objective"] = 0.0
    assert bits(history["objective"]) == bits(written["objective"])
    assert History().to_frame().shape == (0, 0)


@pytest.mark.parametrize(("content", "words"), [
    (b"round,objective\n0,1.5\n1\n", "line 3 has no number of 64 bits in column 'objective', but ''"),
    (b"round,objective\n0,1.5,7\n", "its lines have 3 cells, the header 2"),
    (b"round,objective\n0,0,1.5\n1,1,7\n", "its lines have 3 cells, the header 2"),
    (b"round,objective\n0,word\n", "line 2 has no number of 64 bits in column 'objective', but 'word'"),
    (b"round,round\n0,1\n", "come twice"),
    (b"round,objective\n0,\xff\xfe\n", "can't decode byte"),
    (b"PK\x03\x04\x00\x00", "no history as to_csv writes it"),
    (b"\n\n\n", "it has no rows"),
])  # fmt: skip
def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path, content, words):
    path = tmp_path / "run.csv"
    path.write_bytes(content)
    if content.startswith(b"PK"):
        path.write_bytes(content + b"\n1,2\n")
    with pytest.raises(ValueError, match=words) as caught:
        History.from_csv(path)
    assert str(path) in str(caught.value)


test_refusals = refusals(
    (lambda: recorded()["gap"], KeyError, r"no column 'gap'; there are round, objective, agent_objective"),
    (lambda: np.array(recorded()), TypeError, r"take history\.to_frame\(\)"),
    (lambda: pandas.DataFrame(recorded()), TypeError, r"take history\.to_frame\(\)"),
    *((lambda act=act: act(History()), ValueError, "the history has no rows yet") for act in (History.last, History.drop_last)),
)
