"""Names of agents from the nodes of graphs, and warnings about edge weights that a rule ignores."""

import itertools
import math
import pickle
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import topologies
from consensus.testing import check_schedule
from tests.helpers.refusals import refusals
from topologies.schedules.protocols import labels
from topologies.schedules.reordered import Reordered

FRIENDS = nx.Graph([("ann", "bob"), ("bob", "cy"), ("cy", "ann"), ("cy", "di")])
BY_ONE = nx.Graph([(3, 1), (2, 4), (4, 1)])  # nodes 1, ..., 4, added in another order
STATIC = topologies.Static(FRIENDS)
LABELLED = {
    "static": STATIC,
    "periodic": topologies.Periodic([FRIENDS, FRIENDS.subgraph(FRIENDS)]),
    "random edges": topologies.RandomEdges(FRIENDS, 0.5),
    "link failure": topologies.LinkFailure(STATIC, 0.5),
    "one way": topologies.LinkFailure(STATIC, 0.5, symmetric=False),
    "agent failure": topologies.AgentFailure(STATIC, [(0, 0, 5)]),
    "matchings": topologies.Matchings(4, graph=FRIENDS),
    "sequence": topologies.Sequence(lambda round: FRIENDS, agents=4),
    "temporal": topologies.Temporal([0, 1, 2], [("ann", "bob"), ("bob", "cy"), ("cy", "di")], window=2),
    "directed": topologies.Static(FRIENDS.to_directed(), weights=topologies.push),
}


@pytest.mark.parametrize("name", LABELLED)
def test_agents_have_the_names_of_nodes(name):
    for round in (0, 1, 7):
        found = nx.get_node_attributes(LABELLED[name].graph(round), "label")
        assert found == dict(enumerate(["ann", "bob", "cy", "di"]))
    assert labels(LABELLED[name]) == ["ann", "bob", "cy", "di"]
    assert LABELLED[name].labels == ("ann", "bob", "cy", "di")


def test_numbered_agents_have_no_labels_and_labels_of_the_user_stay():
    assert nx.get_node_attributes(topologies.Static(topologies.ring(4)).graph(0), "label") == {}
    assert labels(topologies.Mobile(3, 0.5, 0.1)) == [0, 1, 2]
    graph = FRIENDS.copy()
    graph.nodes["bob"]["label"] = "Robert"
    assert labels(topologies.Static(graph)) == ["ann", "Robert", "cy", "di"]
    assert "label" not in graph.nodes["ann"]


@pytest.mark.parametrize("shift", [0, 1, 5, -2])
def test_integers_are_agents_in_their_order(shift):
    graph = nx.relabel_nodes(BY_ONE, {node: node - 1 + shift for node in BY_ONE})
    plain = nx.relabel_nodes(BY_ONE, {node: node - 1 for node in BY_ONE})
    np.testing.assert_array_equal(topologies.adjacency(graph).toarray(), nx.to_numpy_array(plain, nodelist=range(4)))
    assert labels(topologies.Static(graph)) == [shift, shift + 1, shift + 2, shift + 3]
    assert labels(topologies.Static(nx.Graph([(7, 2), (2, 4)]))) == [2, 4, 7]


DIGITS = ["1 10", "10 2", "2 3"]  # as networkx.read_edgelist reads them without nodetype


@pytest.mark.parametrize(("edges", "expected"), [
    ([line.split() for line in DIGITS], ("1", "2", "3", "10")),
    ([("40", 10), (10, 20.0)], (10, 20.0, "40")),
    ([(40, 10), (10, 20)], (10, 20, 40)),
    ([("007", "08"), ("08", "1")], ("1", "007", "08")),
    ([(-3, 12), (12, -10)], (-10, -3, 12)),
    ([("b", "10"), ("10", "9")], ("b", "10", "9")),  # not all of them are numbers: the order of the graph
    ([(2.5, 1), (1, 0)], (2.5, 1, 0)),
    ([(True, False)], (True, False)),
])  # fmt: skip
def test_numbers_and_digits_are_ordered_as_numbers_and_the_log_says_so_once(edges, expected, caplog):
    graph = nx.Graph(edges)
    makers = [
        topologies.Static,
        lambda graph: topologies.Periodic([graph, graph]),
        lambda graph: topologies.RandomEdges(graph, 0.5),
        lambda graph: topologies.Matchings(len(graph), graph=graph),
        lambda graph: topologies.LinkFailure(topologies.AgentFailure(topologies.Static(graph), [(0, 0, 5)]), 0.5),
        lambda graph: topologies.Sequence(lambda round: graph, len(graph)),
    ]
    for make in makers:
        caplog.clear()
        with caplog.at_level("INFO", "consensus"):
            network = make(graph)
            assert network.labels == expected
            assert [network.graph(round).nodes[0].get("label", 0) for round in range(20)] == [expected[0]] * 20
        assert len(caplog.messages) == (tuple(graph) != expected)
        assert all("are ordered as numbers: agents 0, 1, ... are " in message for message in caplog.messages)
    pattern = topologies.adjacency(graph)
    np.testing.assert_array_equal(pattern.toarray(), nx.to_numpy_array(graph, nodelist=expected))


def test_labels_of_contacts_that_are_digits_are_ordered_as_numbers(caplog):
    with caplog.at_level("INFO", "consensus"):
        network = topologies.Temporal([0, 1], [("10", "9"), ("9", "1")], window=2)
    assert network.labels == ("1", "9", "10")
    assert sorted(network.graph(0).edges) == [(0, 1), (1, 2)]
    assert len(caplog.messages) == 1


def test_numbers_from_zero_are_no_names_but_labels_of_their_nodes_are():
    matrix = np.ones((3, 3)) - np.eye(3)
    for network in (topologies.Static(topologies.ring(4)), topologies.Static(matrix), topologies.Mobile(3, 1, 1)):
        assert network.labels is None
    graph = nx.Graph([(1, 0), (1, 2)])  # as networkx.read_gml(path, label="id") reads it
    nx.set_node_attributes(graph, {0: "Oslo", 1: "Wien", 2: "Rome"}, "label")
    assert topologies.Static(graph).labels == ("Oslo", "Wien", "Rome")
    graph.nodes[2]["label"] = "Wien"
    assert topologies.Static(graph).labels is None


RULES = [topologies.metropolis, topologies.max_degree, topologies.laplacian, topologies.push, topologies.pull]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_reordered_schedule_is_that_of_the_graph_in_this_order(rule):
    rng = np.random.default_rng(0)
    graph = nx.relabel_nodes(topologies.erdos_renyi(40, 0.3, seed=2), "{:x}x".format)
    order = rng.permutation(40)
    hand = nx.Graph()
    hand.add_nodes_from(np.array(graph)[order].tolist())
    hand.add_edges_from(graph.edges)
    found, wanted = Reordered(topologies.Static(graph, rule), order.tolist()), topologies.Static(hand, rule)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found.weights(0), name), getattr(wanted.weights(0), name))
    assert (found.union() != wanted.union()).nnz == 0
    assert (found.labels, found.static, found.agents) == (wanted.labels, True, 40)
    assert nx.utils.graphs_equal(found.graph(3), wanted.graph(3))
    check_schedule(found)


def test_outages_and_failures_stay_with_their_agents():
    graph = nx.path_graph(["a", "b", "c", "d"])
    inner = topologies.AgentFailure(topologies.LinkFailure(topologies.Static(graph), 0.5, seed=3), [(0, 0, None)])
    network, order = Reordered(inner, (3, 0, 2, 1)), [3, 0, 2, 1]
    for round in range(8):
        there = inner.weights(inner.key(round)).toarray()
        np.testing.assert_allclose(network.weights(network.key(round)).toarray(), there[np.ix_(order, order)], rtol=1e-15)
    assert network != Reordered(inner, (0, 1, 2, 3))
    assert not network.static


RELAY, BACK = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")]), nx.DiGraph([("c", "b"), ("b", "a"), ("a", "c")])


def turns(*graphs):
    network = topologies.Sequence(lambda round: graphs[round % len(graphs)], 3, weights=topologies.push)
    network.weights(0)
    return network


def test_in_the_order_of_the_first_graph_the_way_back_is_its_transpose():
    back = nx.DiGraph()
    back.add_nodes_from(RELAY)
    back.add_edges_from(BACK.edges)
    for network in (topologies.Periodic([RELAY, back], topologies.push), turns(RELAY, back)):
        there, again = (network.weights(network.key(round)).toarray() for round in (0, 1))
        np.testing.assert_array_equal(there, again.T)
        np.testing.assert_array_equal(there, [[0.5, 0, 0.5], [0.5, 0.5, 0], [0, 0.5, 0.5]])


def weighted(last=1):
    return nx.Graph([(0, 1, {"weight": 3.0}), (1, 2, {"weight": 0.5}), (2, 0, {"weight": last})])


@pytest.mark.parametrize("make", [
    topologies.metropolis,
    topologies.max_degree,
    topologies.sinkhorn,
    topologies.push,
    topologies.pull,
    topologies.Static,
    lambda graph: topologies.Periodic([graph, graph]),
    lambda graph: topologies.RandomEdges(graph, 0.5),
    lambda graph: topologies.Static(graph, weights=topologies.laplacian),
])  # fmt: skip
def test_a_rule_that_ignores_edge_weights_warns_at_the_line_of_the_caller(make):
    with pytest.warns(UserWarning, match="edge attribute 'weight' is ignored") as caught:
        make(weighted())
    assert {warning.filename for warning in caught} == {__file__}


def test_the_warning_comes_once_for_each_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            topologies.Static(weighted())
        assert len(caught) == 1
        topologies.Static(weighted())
    assert len(caught) == 2


def test_weights_that_are_read_or_are_one_cause_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        topologies.Static(nx.Graph([(0, 1, {"weight": 1}), (1, 2, {"other": 5})]))
        topologies.sinkhorn(weighted(2.0), weight="weight")
        topologies.laplacian(weighted(2.0), weight="weight")
        topologies.Static(weighted(2.0), weights=lambda graph: topologies.sinkhorn(graph, weight="weight"))


@pytest.mark.parametrize("missing", [None, float("nan"), np.datetime64("NaT"), pd.NA])
def test_a_missing_name_is_no_agent(missing):
    with pytest.raises(ValueError, match="labels must name each agent; that of agent 2 is missing"):
        topologies.Temporal([0, 1], [[0, 1], [1, 2]], 1, labels=["ann", "bob", missing])
    with pytest.raises(ValueError, match="contact 1 must be of two agents; one is missing"):
        topologies.Temporal([0, 1], np.array([["ann", "bob"], ["bob", missing]], dtype=object), 1)
    if missing is not None:  # networkx has no such node
        with pytest.raises(ValueError, match=r"nodes of the graph must be names; one is missing, .*: drop the edges"):
            topologies.Static(nx.Graph([("ann", "bob"), ("bob", missing)]))


@pytest.mark.parametrize("contacts", [np.array([[0, 1], [1, np.nan]]), [["ann", "bob"], ["bob", np.nan]]])
def test_nan_beside_numbers_and_in_lists_of_texts_is_no_agent(contacts):
    with pytest.raises(ValueError, match="contact 1 must be of two agents; one is missing"):
        topologies.Temporal([0, 1], contacts, 1)


def test_nan_in_a_file_of_numbers_is_no_agent_unless_labels_say_so(tmp_path):
    path = tmp_path / "contacts.csv"
    path.write_text("0,1,2\n1,2,nan\n")
    with pytest.raises(ValueError, match=r"line 2, '1,2,nan': a label is missing, 'nan' among numbers; if it is"):
        topologies.Temporal.from_csv(path, 1)
    assert topologies.Temporal.from_csv(path, 1, labels=["1", "2", "nan"]).agents == 3
    path.write_text("0,ann,bob\n1,bob,nan\n")
    assert topologies.Temporal.from_csv(path, 1).labels == ("ann", "bob", "nan")  # somebody called so


def test_whole_numbers_are_agents_however_they_are_written(tmp_path):
    path = tmp_path / "contacts.csv"
    path.write_text("t,i,j\n0,0,1.0\n1,1,2.0\n2,2,0.0\n")
    assert topologies.Temporal.from_csv(path, 1).labels == (0, 1, 2)
    path.write_text("t,i,j\n0,1.0,2.0\n1,2.0,nan\n")
    with pytest.raises(ValueError, match=r"line 3, '1,2.0,nan': a label is missing, 'nan' among numbers"):
        topologies.Temporal.from_csv(path, 1)


@pytest.mark.parametrize(("text", "why"), [
    ("t,id,x,y\n0,1,0.5,0.1\n1,2,0.7,0.3\n", "line 2, '0,1,0.5,0.1': 0.5, in a column of numbers, is no name"),
    ("t a -> b\n0 ann -> bob\n1 bob -> ann\n", "line 2, '0 ann -> bob': '->' has neither letters nor digits"),
])  # fmt: skip
def test_positions_and_arrows_are_no_contacts(tmp_path, text, why):
    (tmp_path / "contacts.csv").write_text(text)
    with pytest.raises(ValueError, match=f"{why}.*say columns=; positions are for topologies.Mobile.from_positions"):
        topologies.Temporal.from_csv(tmp_path / "contacts.csv", 1)


test_refusals = refusals(
    (lambda: topologies.Periodic([RELAY, BACK], topologies.push), ValueError,
     r"^graphs\[1\] has the agents c, b, a .*\[0\] has a, b, c: "),
    (lambda: topologies.Periodic([topologies.path(3), nx.Graph([(1, 2), (2, 3)])]), ValueError,
     r"\[1\] has the agents 1, 2, 3 .* 0, 1, 2:"),
    (lambda: topologies.Periodic([topologies.path(3), nx.Graph([(0, 1)])]), ValueError,
     r"\[1\] has 2 agents .* 3; .* the nodes of all"),
    (lambda: turns(RELAY, BACK).weights(1), ValueError,
     r"^round 1: the graph has the agents c, b, a .* round 0 has a, b, c: add"),
    (lambda: turns(RELAY, BACK).graph(3), ValueError, r"^round 3: the graph has the agents c, b, a"),
    (lambda: turns(RELAY, nx.DiGraph([("a", "b")])).weights(1), ValueError,
     r"^round 1: .* 2 agents, but agents=3; every graph needs"),
)  # fmt: skip


# Agents at given positions: graphs and schedules against distances by hand, tables, and what is no position.

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
test_refusals_of_positions = refusals(
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
