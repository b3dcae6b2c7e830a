"""Names of agents from the nodes of graphs, and warnings about edge weights that a rule ignores."""

import warnings

import networkx as nx
import numpy as np
import pytest

import topologies
from topologies.schedules.protocols import labels

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


def test_numbered_agents_have_no_labels_and_labels_of_the_user_stay():
    assert nx.get_node_attributes(topologies.Static(topologies.ring(4)).graph(0), "label") == {}
    assert labels(topologies.Mobile(3, 0.5, 0.1)) == [0, 1, 2]
    graph = FRIENDS.copy()
    graph.nodes["bob"]["label"] = "Robert"
    assert labels(topologies.Static(graph)) == ["ann", "Robert", "cy", "di"]
    assert "label" not in graph.nodes["ann"]


@pytest.mark.parametrize("shift", [0, 1, 5, -2])
def test_consecutive_integers_are_agents_in_their_order_and_others_in_that_of_nodes(shift):
    graph = nx.relabel_nodes(BY_ONE, {node: node - 1 + shift for node in BY_ONE})
    plain = nx.relabel_nodes(BY_ONE, {node: node - 1 for node in BY_ONE})
    np.testing.assert_array_equal(topologies.adjacency(graph).toarray(), nx.to_numpy_array(plain, nodelist=range(4)))
    assert labels(topologies.Static(graph)) == [shift, shift + 1, shift + 2, shift + 3]
    assert labels(topologies.Static(nx.Graph([(7, 2), (2, 4)]))) == [7, 2, 4]


RELAY, BACK = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")]), nx.DiGraph([("c", "b"), ("b", "a"), ("a", "c")])


def turns(*graphs):
    network = topologies.Sequence(lambda round: graphs[round % len(graphs)], 3, weights=topologies.push)
    network.weights(0)
    return network


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: topologies.Periodic([RELAY, BACK], topologies.push),
            r"^graphs\[1\] has the agents c, b, a .*\[0\] has a, b, c: ",
        ),
        (
            lambda: topologies.Periodic([topologies.path(3), nx.Graph([(1, 2), (2, 3)])]),
            r"\[1\] has the agents 1, 2, 3 .* 0, 1, 2:",
        ),
        (
            lambda: topologies.Periodic([topologies.path(3), nx.Graph([(0, 1)])]),
            r"\[1\] has 2 agents .* 3; .* the nodes of all",
        ),
        (lambda: turns(RELAY, BACK).weights(1), r"^round 1: the graph has the agents c, b, a .* round 0 has a, b, c: add"),
        (lambda: turns(RELAY, BACK).graph(3), r"^round 3: the graph has the agents c, b, a"),
        (lambda: turns(RELAY, nx.DiGraph([("a", "b")])).weights(1), r"^round 1: .* 2 agents, but agents=3; every graph needs"),
    ],
)
def test_graphs_that_number_their_nodes_in_different_ways_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


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


@pytest.mark.parametrize(
    "make",
    [
        topologies.metropolis,
        topologies.max_degree,
        topologies.sinkhorn,
        topologies.push,
        topologies.pull,
        topologies.Static,
        lambda graph: topologies.Periodic([graph, graph]),
        lambda graph: topologies.RandomEdges(graph, 0.5),
        lambda graph: topologies.Static(graph, weights=topologies.laplacian),
    ],
)
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
