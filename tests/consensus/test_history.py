"""What a run recorded comes back as it went in, from memory and from a file."""

import csv

import numpy as np
import pytest

from consensus.history import History

NUMBERS = [0.1, 1 / 3, -0.0, 5.0, 1e300, 5e-324, -np.pi, 2.0**53 + 2, np.nextafter(1, 2), np.inf, -np.inf, np.nan]
ROWS = len(NUMBERS)


def recorded(rows=ROWS, agents=3):
    """A history with counts, floats of every size, and a quantity of every agent."""
    history, rng = History(), np.random.default_rng(0)
    for row in range(rows):
        history.append(
            {
                "round": 10 * row,
                "objective": NUMBERS[row],
                "agent_objective": rng.standard_normal(agents) * 10.0 ** rng.integers(-300, 300),
                "messages": np.int64(2**62 + row),
                "seconds": np.float64(row) / 7,
                "narrow": np.float32(row) / np.float32(3),
            }
        )
    return history


def bits(column):
    return np.asarray(column, np.float64).view(np.uint64).tolist()


def test_columns_are_arrays_in_the_order_of_the_rows():
    history = recorded()
    assert list(history) == ["round", "objective", "agent_objective", "messages", "seconds", "narrow"]
    assert (history.rows, len(history)) == (ROWS, 6)
    assert history["round"].tolist() == [10 * row for row in range(ROWS)]
    assert history["round"].dtype.kind == "i"
    assert history["messages"].tolist() == [2**62 + row for row in range(ROWS)]
    assert bits(history["objective"]) == bits(NUMBERS)
    assert history["agent_objective"].shape == (ROWS, 3)
    np.testing.assert_array_equal(history.last()["agent_objective"], history["agent_objective"][-1])
    assert "objective" in history
    assert "gap" not in history


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
        lines = list(csv.reader(file))
    assert lines == [
        ["round", "objective", "gap_0", "gap_1"],
        ["0", "2.5", "0.5", "1e-20"],
        ["10", "3.0", "0.25", "0.0"],
    ]


def test_csv_is_read_by_numpy_too(tmp_path):
    history = recorded()
    history.to_csv(tmp_path / "run.csv")
    table = np.genfromtxt(tmp_path / "run.csv", delimiter=",", names=True)
    assert bits(table["objective"]) == bits(history["objective"])
    assert bits(table["agent_objective_2"]) == bits(history["agent_objective"][:, 2])


def test_one_row_and_no_row_come_back(tmp_path):
    for rows in (0, 1):
        history = recorded(rows)
        history.to_csv(tmp_path / "run.csv")
        back = History.from_csv(tmp_path / "run.csv")
        assert back.rows == history.rows == rows
        assert all(bits(back[name]) == bits(history[name]) for name in ("round", "objective") if rows)


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


def test_an_unknown_column_is_named_with_those_there_are():
    with pytest.raises(KeyError, match=r"no column 'gap'; there are round, objective, agent_objective"):
        recorded()["gap"]
