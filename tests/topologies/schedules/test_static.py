"""One graph for all rounds: node attributes, the order of agents, weights that do not belong to it."""

import pickle

import networkx as nx
import numpy as np
import pytest
from networks import laplacian, push, same
from scipy import sparse

import topologies


def test_static_gives_metropolis_weights_in_every_round():
    graph = topologies.erdos_renyi(10, 0.3, seed=0)
    schedule = topologies.Static(graph)
    assert {schedule.key(n) for n in range(5)} == {schedule.key(0)}
    assert same(schedule.weights(schedule.key(4)), topologies.metropolis(graph))
    assert set(schedule.graph(4).edges) == set(graph.edges)


def test_static_calls_the_weights_function_once():
    calls = []
    schedule = topologies.Static(topologies.ring(5), weights=lambda graph: calls.append(1) or topologies.metropolis(graph))
    for n in range(5):
        schedule.weights(schedule.key(n))
    assert calls == [1]
    assert pickle.loads(pickle.dumps(schedule)) == topologies.Static(topologies.ring(5))


def test_static_keeps_node_attributes_and_gives_them_to_the_agents():
    graph = nx.Graph()
    graph.add_node("b", pos=(0.0, 1.0))
    graph.add_node("a", pos=(2.0, 3.0))
    graph.add_edge("a", "b")
    drawn = topologies.Static(graph).graph(0)
    assert dict(drawn.nodes(data="pos")) == {0: (0.0, 1.0), 1: (2.0, 3.0)}
    assert dict(topologies.RandomEdges(graph, 0.5).graph(2).nodes(data="pos")) == {0: (0.0, 1.0), 1: (2.0, 3.0)}


def test_weights_functions_that_follow_the_order_of_networkx_get_the_order_of_the_agents():
    ordered = topologies.barabasi_albert(9, 2, seed=1)
    shuffled = nx.Graph()
    shuffled.add_nodes_from(reversed(range(9)))
    shuffled.add_edges_from(ordered.edges)
    expected = topologies.Static(ordered, weights=laplacian)
    found = topologies.Static(shuffled, weights=laplacian)
    assert np.array_equal(found.weights(0).toarray(), expected.weights(0).toarray())


def test_directed_graphs_stay_directed_and_weights_run_against_the_edges():
    schedule = topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]), weights=push)
    third = 1 / 3
    expected = [[third, 0, 0.5], [third, 0.5, 0], [third, 0.5, 0.5]]
    np.testing.assert_allclose(schedule.weights(0).toarray(), expected, rtol=0, atol=1e-16)
    assert schedule.graph(0).is_directed()
    assert set(schedule.graph(0).edges) == {(0, 1), (1, 2), (2, 0), (0, 2)}


def test_a_directed_matrix_gives_a_directed_graph():
    cycle = np.roll(np.eye(4), 1, axis=1)
    graph = topologies.Static(cycle, weights=lambda _: sparse.csr_array((cycle.T + np.eye(4)) / 2)).graph(0)
    assert graph.is_directed()
    assert set(graph.edges) == {(0, 1), (1, 2), (2, 3), (3, 0)}


def dense(graph):
    return topologies.metropolis(graph).toarray()


def wrong_size(graph):
    return sparse.eye_array(len(graph) + 1)


def everyone(graph):
    return sparse.csr_array(np.full((len(graph), len(graph)), 1 / len(graph)))


def broken(graph):
    return sparse.diags_array(np.full(len(graph), np.nan))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            dense,
            r"weights function dense must return a .* of shape \(4, 4\), got ndarray of shape \(4, 4\)",
        ),
        (wrong_size, r"weights function wrong_size must return .* \(4, 4\), got dia_array of shape \(5, 5\)"),
        (everyone, r"weights function everyone returned nonzeros off the edges.*\(0, 2\), \(1, 3\), \(2, 0\), \.\.\. "),
        (broken, "weights function broken returned entries that are not finite"),
    ],
)
def test_weights_that_do_not_belong_to_the_graph_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        topologies.Static(topologies.ring(4), weights=weights)
    with pytest.raises(ValueError, match=message):
        topologies.Periodic([topologies.ring(4)], weights=weights)


def test_weights_along_instead_of_against_directed_edges_are_refused():
    def forward(graph):
        return topologies.adjacency(graph)

    with pytest.raises(ValueError, match=r"nonzeros off the edges of the graph: \(i, j\) = \(0, 1\) without edge j to i"):
        topologies.Static(nx.DiGraph([(0, 1)]), weights=forward)


def test_weights_must_be_a_function():
    with pytest.raises(TypeError, match="weights must be a function from a graph to a matrix, got a csr_array"):
        topologies.Static(topologies.ring(4), weights=topologies.metropolis(topologies.ring(4)))
