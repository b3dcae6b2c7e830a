"""Sinkhorn-Knopp weights against matrices by hand and the plain iteration of the paper."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies
from topologies import sinkhorn

GOLDEN = (math.sqrt(5) - 1) / 2  # of a path: with scales (a, b, a), a^2 + a b = 1 and b^2 + 2 a b = 1


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (topologies.path(3), [[GOLDEN, 1 - GOLDEN, 0], [1 - GOLDEN, 2 * GOLDEN - 1, 1 - GOLDEN], [0, 1 - GOLDEN, GOLDEN]]),
        (nx.cycle_graph(5, create_using=nx.DiGraph), (np.eye(5) + np.roll(np.eye(5), 1, axis=0)) / 2),
        *[
            (regular, topologies.metropolis(regular).toarray())
            for regular in (topologies.ring(7), topologies.complete(6), topologies.hypercube(4), topologies.torus(3, 4))
        ],
    ],
)
def test_matrices_by_hand(graph, expected):
    np.testing.assert_allclose(sinkhorn(graph).toarray(), expected, rtol=0, atol=2e-15)


def iterated(matrix):
    """Divide rows and columns by their sums in turn."""
    for _ in range(100_000):
        matrix = matrix / matrix.sum(axis=1, keepdims=True)
        matrix = matrix / matrix.sum(axis=0)
        if abs(matrix.sum(axis=1) - 1).max() < 1e-15:
            break
    return matrix


@pytest.mark.parametrize("seed", range(5))
def test_graphs_agree_with_the_plain_iteration(seed):
    graph = topologies.barabasi_albert(12, 2, seed=seed)
    expected = iterated(nx.to_numpy_array(graph, nodelist=range(12)) + np.eye(12))
    np.testing.assert_allclose(sinkhorn(graph).toarray(), expected, rtol=0, atol=1e-13)
    rng = np.random.default_rng(seed)
    edges = np.roll(np.eye(9), 1, axis=1) + (rng.random((9, 9)) < 0.2)
    np.fill_diagonal(edges, 0)
    edges = (edges > 0) * np.exp(rng.standard_normal((9, 9)))
    for directed in (nx.from_numpy_array(edges, create_using=nx.DiGraph), edges, sparse.csr_array(edges)):
        found = sinkhorn(directed, weight="weight").toarray()
        np.testing.assert_allclose(found, iterated(edges.T + np.eye(9)), rtol=0, atol=1e-13)


def test_a_long_path_on_which_the_plain_iteration_is_slow():
    matrix = sinkhorn(topologies.path(2000))
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-14)
    # Every weight is a product of the scales of its row and its column, so w_ij^2 = w_ii w_jj.
    diagonal, edges = matrix.diagonal(), matrix.diagonal(1)
    np.testing.assert_allclose(edges**2, diagonal[1:] * diagonal[:-1], rtol=1e-12, atol=0)


def test_strong_components_are_scaled_one_by_one():
    graph = nx.DiGraph([(0, 1), (1, 2), (2, 0), (3, 4), (4, 3), (0, 2)])
    graph.add_node(5)
    matrix = sinkhorn(graph).toarray()
    np.testing.assert_allclose(matrix[:3, :3], sinkhorn(graph.subgraph(range(3))).toarray(), rtol=0, atol=1e-14)
    np.testing.assert_allclose(matrix[3:, 3:], [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]], rtol=0, atol=1e-14)
    np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=0, atol=1e-14)


def test_edges_on_no_cycle_are_named_with_the_reason():
    with pytest.raises(ValueError, match=r"\(1, 2\) lie on no directed cycle.*lacks total support.*topologies\.push"):
        sinkhorn(nx.DiGraph([(0, 1), (1, 0), (1, 2), (2, 3), (3, 2)]))
    graph = nx.DiGraph([("hub", name) for name in "abcd"])
    with pytest.raises(ValueError, match=r"\(hub, a\), \(hub, b\), \(hub, c\), \.\.\. lie on no directed cycle"):
        sinkhorn(graph)
    graph.add_edges_from([(name, "hub") for name in "abcd"])
    np.testing.assert_allclose(sinkhorn(graph).sum(axis=0), 1, rtol=0, atol=1e-14)


def test_weights_over_many_orders_of_magnitude():
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, 1e-6), (1, 2, 1e6), (2, 3, 1.0), (3, 0, 1e3)])
    matrix = sinkhorn(graph, weight="weight")
    np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=0, atol=1e-12)
    assert (matrix.toarray() == matrix.toarray().T).all()
