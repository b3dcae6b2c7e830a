"""Metropolis matrices against their definition and hand-computed ones."""

import networkx as nx
import numpy as np
import pytest
from networks import GRAPHS
from scipy import sparse

import topologies


@pytest.fixture(params=GRAPHS)
def graph(request):
    return GRAPHS[request.param]


def textbook_metropolis(graph):
    """The definition of the weights, one edge at a time."""
    matrix = np.zeros((len(graph), len(graph)))
    for i, j in graph.edges:
        matrix[i, j] = matrix[j, i] = 1 / (1 + max(graph.degree[i], graph.degree[j]))
    return matrix + np.diag(1 - matrix.sum(axis=1))


def test_metropolis_is_the_definition(graph):
    found, expected = topologies.metropolis(graph).toarray(), textbook_metropolis(graph)
    edges = ~np.eye(len(graph), dtype=bool)
    assert np.array_equal(found[edges], expected[edges])
    # The diagonal is one minus a sum, here in another order.
    np.testing.assert_allclose(np.diag(found), np.diag(expected), rtol=0, atol=1e-15)


def test_metropolis_is_symmetric_and_doubly_stochastic(graph):
    matrix = topologies.metropolis(graph)
    assert np.array_equal(matrix.toarray(), matrix.toarray().T)
    np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-15)
    assert (matrix.data > 0).all()


def test_metropolis_stores_the_edges_and_the_diagonal_and_nothing_else(graph):
    matrix = topologies.metropolis(graph)
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.dtype == np.float64
    assert matrix.has_canonical_format
    expected = nx.to_numpy_array(graph, nodelist=range(len(graph))) + np.eye(len(graph))
    stored = sparse.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
    assert np.array_equal(stored.toarray(), expected)


def test_metropolis_of_a_path_of_three_by_hand():
    third = 1 / 3
    expected = [[2 * third, third, 0], [third, third, third], [0, third, 2 * third]]
    np.testing.assert_allclose(topologies.metropolis(topologies.path(3)).toarray(), expected, rtol=0, atol=2e-16)


def test_metropolis_of_a_star_of_four_by_hand():
    expected = [[0.25, 0.25, 0.25, 0.25], [0.25, 0.75, 0, 0], [0.25, 0, 0.75, 0], [0.25, 0, 0, 0.75]]
    assert topologies.metropolis(topologies.star(4)).toarray().tolist() == expected


def test_metropolis_of_a_complete_graph_averages():
    np.testing.assert_allclose(topologies.metropolis(topologies.complete(8)).toarray(), 1 / 8, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "directed",
    [
        nx.DiGraph([(0, 1), (1, 2)]),
        nx.path_graph(3).to_directed(),
        np.array([[0, 1], [0, 0]]),
        sparse.eye_array(4, k=1),
    ],
)
def test_metropolis_refuses_directed_graphs(directed):
    message = "Metropolis weights need an undirected graph.*column-stochastic weights and a push-sum method"
    with pytest.raises(ValueError, match=message):
        topologies.metropolis(directed)


def test_an_edge_without_its_reverse_is_named():
    matrix = topologies.adjacency(topologies.ring(6)).toarray()
    matrix[4, 3] = 0
    with pytest.raises(ValueError, match=r"no edge back for \(3, 4\)"):
        topologies.metropolis(matrix)
