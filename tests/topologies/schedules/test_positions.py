"""Agents at given positions: graphs and schedules against distances by hand, tables, and what is no position."""

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest

import topologies
from consensus.testing import check_schedule
from tests.helpers.refusals import refusals

PATH = np.array([[[0, 0], [3, 4], [9, 4]], [[0, 0], [3, 4], [6, 8]], [[0, 0], [1, 1], [2, 2]]], dtype=float)
MEETINGS = [{(0, 1)}, {(0, 1), (1, 2)}, {(0, 1), (0, 2), (1, 2)}]  # at most 5 apart
LONG = pd.DataFrame(
    [(10 * n, name, *PATH[n, k]) for k, name in ((2, "cy"), (0, "ann"), (1, "bob")) for n in (2, 0, 1)],
    columns=["time", "agent", "x", "y"],
)


def edges(network, rounds=3):
    return [set(network.graph(n).edges) for n in range(rounds)]


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_agents_are_adjacent_within_the_radius(dimensions):
    points = np.random.default_rng(dimensions).uniform(-5, 9, (30, dimensions))
    graph = topologies.geometric(points, radius=2.5)
    expected = {(i, j) for i, j in itertools.combinations(range(30), 2) if math.dist(points[i], points[j]) <= 2.5}
    assert set(graph.edges) == expected
    assert graph.nodes[7]["pos"] == tuple(points[7])


def test_neighbours_on_a_lattice_of_tenths_are_adjacent():
    points = [(i * 0.1, j * 0.1) for i in range(12) for j in range(9)]
    assert topologies.geometric(points, radius=0.1).size() == topologies.grid(12, 9).size()
    assert topologies.geometric(points, radius=0.0999).size() == 0
    moving = topologies.Mobile.from_positions([points], 0.1)
    assert moving.graph(0).size() == topologies.grid(12, 9).size()


def test_names_of_positions():
    frame = pd.DataFrame({"height": [5, 5, 5], "y": [0, 0, 4.0], "x": [0, 3.0, 3]}, index=["ann", "bob", "cy"])
    for positions in (frame, {"ann": (0, 0), "bob": (3, 0), "cy": (3, 4)}):
        graph = topologies.geometric(positions, 4)
        assert set(graph.edges) == {("ann", "bob"), ("bob", "cy")}
        assert graph.nodes["cy"]["pos"] == (3, 4)
        assert topologies.Static(graph).labels == ("ann", "bob", "cy")
    assert topologies.geometric({"a": (0, 0), "b": (9, 9)}, 1).number_of_nodes() == 2  # nobody is left out


@pytest.mark.parametrize("kind", ["array", "table", "file", "names", "dates"])
def test_moving_agents_meet_where_they_were(tmp_path, kind):
    columns, names = ("time", "agent", "x", "y"), ("ann", "bob", "cy")
    given = LONG
    if kind == "array":
        given, names = PATH, None
    elif kind == "file":
        LONG.to_csv(given := tmp_path / "moves.csv.gz", index=False)
    elif kind == "names":
        given, columns = LONG.set_axis(["t", "who", "east", "north"], axis=1), ["t", "who", "east", "north"]
    elif kind == "dates":
        given = LONG.assign(time=(pd.Timestamp("2024-03-01", tz="Asia/Tokyo") + pd.to_timedelta(LONG["time"], "s")))
    network = topologies.Mobile.from_positions(given, radius=5, columns=columns)
    assert (network.agents, network.rounds, network.labels) == (3, 3, names)
    assert edges(network, 7) == [*MEETINGS, *MEETINGS, MEETINGS[0]]
    assert network.positions(4).tolist() == PATH[1].tolist()
    check_schedule(network, mixing="symmetric")
    assert pickle.loads(pickle.dumps(network)) == network
    assert np.array_equal(network.weights(network.key(1)).toarray(), topologies.metropolis(topologies.path(3)).toarray())
    assert network.union().nnz == 6


def test_a_third_coordinate_counts():
    table = pd.DataFrame({"time": 0, "agent": [*"abc"], "x": [0, 1, 1], "y": 0, "z": [0, 9, 9]})
    assert edges(topologies.Mobile.from_positions(table, 1), 1) == [{(1, 2)}]
    flat = topologies.Mobile.from_positions(table, 1, columns=("time", "agent", "x", "y"))
    assert edges(flat, 1) == [{(0, 1), (0, 2), (1, 2)}]


def test_without_cycles_agents_stay_where_they_were_last():
    network = topologies.Mobile.from_positions(PATH[::-1], 5, cyclic=False)
    assert edges(network, 5) == [*MEETINGS[::-1], MEETINGS[0], MEETINGS[0]]
    assert np.argwhere(network.union().toarray()).tolist() == [[0, 1], [1, 0]]
    assert topologies.Mobile.from_positions(PATH[:1], 5).static
    assert [group.tolist() for group in topologies.components(network)] == [[0, 1], [2]]
    assert network != topologies.Mobile.from_positions(PATH[::-1], 5)


def test_digits_order_agents_as_numbers_and_uneven_times_are_said():
    frame = LONG.replace({"agent": {"ann": "9", "bob": "10", "cy": "100"}}).replace({"time": {20: 25}})
    with pytest.warns(UserWarning, match="times of positions are not evenly spaced"):
        network = topologies.Mobile.from_positions(frame, 5)
    assert network.labels == ("9", "10", "100")
    assert edges(network) == MEETINGS


@pytest.mark.parametrize(("change", "kind", "message"), [
    (lambda frame: frame.drop(index=4), ValueError, "agent ann has no position at time 0, and so in 1 of 9 cases"),
    (lambda frame: pd.concat([frame, frame[:2]]), ValueError, "agent cy has more than one position at time 0, and so in 2"),
    (lambda frame: frame.replace({"x": {9: np.nan}}), ValueError,
     r"positions must be finite; 1 are not, the first at \[1, 0\]"),
    (lambda frame: frame.rename(columns={"x": "X"}), ValueError, "have no column 'x', only 'time', 'agent', 'X', 'y'; say"),
    (lambda frame: frame.replace({"agent": {"cy": None}}), ValueError,
     "'agent' of positions has empty cells, the first in row 0"),
    (lambda frame: frame.assign(time="noon"), ValueError, "'time' must hold numbers or dates in ISO 8601, got 'noon'"),
    (lambda frame: frame.assign(x="far"), TypeError, "positions must be an array of real numbers"),
])  # fmt: skip
def test_bad_tables_of_moves_are_rejected(change, kind, message):
    with pytest.raises(kind, match=message):
        topologies.Mobile.from_positions(change(LONG), 5)


DEGREES = pd.DataFrame({"lat": [48.2, 41.9], "lon": [16.4, 12.5]}, index=["Wien", "Roma"])


COLUMNS = ("time", "agent", "Lat", "Lon")


test_refusals = refusals(
    (lambda: topologies.geometric(DEGREES, 1), ValueError, "positions in degrees, lat, lon, have no distances"),
    (lambda: topologies.Mobile.from_positions(LONG.set_axis(["time", "agent", "Lat", "Lon"], axis=1), 5, columns=COLUMNS),
     ValueError, "in degrees, Lat, Lon"),
    (lambda: topologies.geometric(np.ma.masked_equal([[0, 1], [2, 99]], 99), 1), ValueError, r"1 masked entries, at \[1, 1\]"),
    (lambda: topologies.geometric([[0, math.inf]], 1), ValueError, r"must be finite; 1 are not, the first at \[0, 1\]"),
    (lambda: topologies.geometric([0, 1], 1), ValueError,
     r"must have shape \(agents, 2\), or one or three columns; got \(2,\)"),
    (lambda: topologies.geometric([[0, 1]], 0), ValueError, "radius must be a finite number above 0, got 0"),
    (lambda: topologies.Mobile.from_positions(PATH[0], 1), ValueError, r"must have shape \(rounds, agents, 2\).* got \(3, 2\)"),
    (lambda: topologies.Mobile.from_positions(np.ma.masked_equal(PATH, 9), 1), ValueError, r"masked entries, at \[0, 2, 0\]"),
    (lambda: topologies.Mobile.from_positions(PATH, 1, cyclic="no"), ValueError, "cyclic must be True or False"),
    (lambda: topologies.Mobile.from_positions(LONG, 1, columns="txy"), ValueError, "columns must name the time, the agent and"),
)  # fmt: skip
