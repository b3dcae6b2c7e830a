"""Sequences from a user's function or a list: what they give, how often they ask, refusals that name the round."""

import pickle

import networkx as nx
import numpy as np
import pytest
from networks import EVENS, ODDS, same
from scipy import sparse

import topologies


def growing(round):
    """A path over the first agents, longer in every round."""
    graph = nx.empty_graph(6)
    nx.add_path(graph, range(min(round + 1, 6)))
    return graph


def test_each_round_has_the_weights_of_its_graph():
    network = topologies.Sequence(growing, agents=6)
    for n in (3, 0, 7, 3):
        expected = topologies.metropolis(growing(n)).toarray()
        assert np.array_equal(network.weights(network.key(n)).toarray(), expected)
        assert set(network.graph(n).edges) == set(growing(n).edges)


def test_directed_graphs_and_weights_of_ones_own():
    network = topologies.Sequence(
        lambda n: nx.DiGraph([(n % 3, (n + 1) % 3), (2, 1), (0, 2)]), agents=3, weights=topologies.push
    )
    for n in range(3):
        matrix = network.weights(n).toarray()
        assert network.graph(n).is_directed()
        assert np.array_equal(matrix != 0, nx.to_numpy_array(network.graph(n)).T + np.eye(3) != 0)
        np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=0, atol=1e-15)


def test_the_function_is_asked_once_for_a_round_and_graphs_are_forgotten():
    asked = []
    network = topologies.Sequence(lambda n: asked.append(n) or topologies.ring(4), agents=4)
    for n in range(50):
        network.weights(network.key(n))
        network.graph(n)
        network.weights(network.key(n))
    assert asked == list(range(50))
    assert len(network._recent._results) <= 8
    network.weights(0)
    assert asked[-1] == 0


def test_a_graph_that_the_function_changes_later_is_copied():
    graph = topologies.path(4)
    network = topologies.Sequence(lambda n: graph, agents=4)
    before = network.weights(0).toarray()
    graph.add_edge(0, 3)
    assert np.array_equal(network.weights(0).toarray(), before)
    assert not network.graph(0).has_edge(0, 3)


def test_node_attributes_reach_the_graphs():
    def placed(round):
        graph = topologies.path(2)
        nx.set_node_attributes(graph, {0: (0.0, round), 1: (1.0, 0.0)}, "pos")
        return graph

    assert topologies.Sequence(placed, agents=2).graph(3).nodes[0]["pos"] == (0.0, 3)


def test_the_union_is_that_of_the_first_rounds():
    assert topologies.Sequence(growing, agents=6, horizon=3).union().nnz == 4
    assert np.array_equal(topologies.Sequence(growing, agents=6).union().toarray(), nx.to_numpy_array(topologies.path(6)))
    assert [len(group) for group in topologies.components(topologies.Sequence(growing, agents=6, horizon=3))] == [3, 1, 1, 1]


def test_travel_and_equality():
    network = topologies.Sequence(growing, agents=6)
    network.weights(4)
    copy = pickle.loads(pickle.dumps(network))
    assert copy == network
    assert hash(copy) == hash(network)
    assert not copy._recent._results
    assert network != topologies.Sequence(growing, agents=6, weights=topologies.push)
    assert repr(network) == "Sequence(growing, agents=6, weights=metropolis)"


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (lambda n: topologies.ring(4 + n // 3), ValueError, "round 3: the graph has 5 agents, but agents=4"),
        (lambda n: nx.DiGraph(topologies.ring(4)) if n > 2 else topologies.ring(4), ValueError, "round 3: .*undirected"),
        (lambda n: [(0, 1)] if n == 3 else topologies.ring(4), TypeError, "round 3: graph must be a networkx.Graph"),
        (lambda n: nx.Graph([(0, 0), (1, 2), (2, 3)]) if n == 3 else topologies.ring(4), ValueError, "round 3: .*self-loops"),
    ],
)
def test_a_bad_graph_is_named_by_its_round(function, kind, message):
    network = topologies.Sequence(function, agents=4)
    for n in range(3):
        network.weights(network.key(n))
    for ask in (network.graph, lambda n: network.weights(network.key(n))):
        with pytest.raises(kind, match=message):
            ask(3)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (([topologies.ring(4)], 4), TypeError, "function must be a function .*got a list; use Periodic for a list of graphs"),
        ((topologies.ring(4), 4), TypeError, "function must be a function from a round to a graph, got a Graph"),
        ((growing, 0), ValueError, "agents must be at least 1, got 0"),
        ((growing, 6, "metropolis"), TypeError, "weights must be a function from a graph to a matrix, got a str"),
        ((growing, 6, topologies.metropolis, 0), ValueError, "horizon must be at least 1, got 0"),
    ],
)
def test_bad_settings_are_refused(arguments, kind, message):
    with pytest.raises(kind, match=message):
        topologies.Sequence(*arguments)


def test_periodic_takes_its_graphs_in_turn():
    graphs = [EVENS, ODDS, topologies.ring(4)]
    schedule = topologies.Periodic(graphs)
    for n in range(9):
        assert same(schedule.weights(schedule.key(n)), topologies.metropolis(graphs[n % 3]))
        assert {frozenset(edge) for edge in schedule.graph(n).edges} == {frozenset(edge) for edge in graphs[n % 3].edges}
    assert [schedule.key(n) == schedule.key(0) for n in range(5)] == [True, False, False, True, False]


def test_periodic_names_the_graph_of_another_size():
    with pytest.raises(ValueError, match=r"graphs\[2\] has 5 agents but graphs\[0\] has 4"):
        topologies.Periodic([EVENS, ODDS, topologies.ring(5), topologies.ring(6)])


def test_periodic_needs_a_graph():
    with pytest.raises(ValueError, match="graphs is empty; pass at least one graph"):
        topologies.Periodic([])


@pytest.mark.parametrize("single", [topologies.ring(4), np.zeros((4, 4)), sparse.csr_array((4, 4))])
def test_periodic_refuses_a_single_graph(single):
    with pytest.raises(TypeError, match=r"must be a list of graphs, got one .*; use Static"):
        topologies.Periodic(single)


@pytest.mark.parametrize("turns", [[EVENS, ODDS, EVENS], [EVENS, EVENS, ODDS], [ODDS, EVENS, EVENS]])
def test_a_period_in_which_one_graph_differs_is_no_static_one(turns):
    network = topologies.Periodic(turns)
    assert not network.static
    for n in range(7):
        assert same(network.weights(network.key(n)), topologies.metropolis(turns[n % 3]))
