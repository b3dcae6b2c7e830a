"""Sequences: graphs by a user's function of the round, how often it is called, errors that name the round."""

import pickle

import networkx as nx
import numpy as np
import pytest

import topologies


def growing(round):
    """A path over the first agents, longer in every round."""
    return nx.compose(nx.empty_graph(6), nx.path_graph(min(round + 1, 6)))


def test_each_round_has_the_weights_of_its_graph():
    network = topologies.Sequence(growing, agents=6)
    for n in (3, 0, 7, 3):
        assert np.array_equal(network.weights(network.key(n)).toarray(), topologies.metropolis(growing(n)).toarray())
        assert set(network.graph(n).edges) == set(growing(n).edges)
    directed = topologies.Sequence(lambda n: nx.DiGraph([(n % 3, (n + 1) % 3), (2, 1), (0, 2)]), 3, topologies.push)
    for n in range(3):
        assert directed.graph(n).is_directed()
        assert np.array_equal(directed.weights(n).toarray(), topologies.push(directed.graph(n)).toarray())


def test_the_function_is_called_once_for_a_round_and_graphs_are_forgotten():
    asked = []
    network = topologies.Sequence(lambda n: asked.append(n) or topologies.ring(4), agents=4)
    for n in range(50):
        network.weights(network.key(n))
        network.graph(n)
        network.weights(network.key(n))
    assert asked == list(range(50))
    for n in range(50):
        network.weights(n)
    assert asked == [*range(50), *range(50)]  # none of the oldest is in the cache


def test_a_copy_starts_with_an_empty_cache():
    network = topologies.Sequence(growing, agents=6)
    size = len(pickle.dumps(network))
    network.weights(4)
    assert len(pickle.dumps(network)) == size


def test_a_graph_that_the_function_changes_later_is_copied():
    graph = topologies.path(4)
    network = topologies.Sequence(lambda n: graph, agents=4)
    before = network.weights(0).toarray()
    graph.add_edge(0, 3)
    assert np.array_equal(network.weights(0).toarray(), before)
    assert not network.graph(0).has_edge(0, 3)


def test_the_union_is_that_of_the_first_rounds():
    short = topologies.Sequence(growing, agents=6, horizon=3)
    assert short.union().nnz == 4
    assert np.array_equal(topologies.Sequence(growing, agents=6).union().toarray(), nx.to_numpy_array(topologies.path(6)))
    assert [len(group) for group in topologies.components(short)] == [3, 1, 1, 1]


@pytest.mark.parametrize(
    ("bad", "kind", "message"),
    [
        (topologies.ring(5), ValueError, "round 3: the graph has 5 agents, but agents=4"),
        (nx.DiGraph(topologies.ring(4)), ValueError, "round 3: .*undirected"),
        ([(0, 1)], TypeError, "round 3: graph must be a networkx.Graph"),
        (nx.Graph([(0, 0), (1, 2), (2, 3)]), ValueError, "round 3: .*self-loops"),
    ],
)
def test_errors_about_a_graph_name_its_round(bad, kind, message):
    network = topologies.Sequence(lambda n: bad if n == 3 else topologies.ring(4), agents=4)
    for n in range(3):
        network.weights(network.key(n))
    for call in (network.graph, lambda n: network.weights(network.key(n))):
        with pytest.raises(kind, match=message):
            call(3)
