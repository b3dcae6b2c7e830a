"""Laplacian and maximum-degree weights against hand-computed matrices and networkx; the best epsilon."""

import math

import networkx as nx
import numpy as np
import pytest

import topologies


def weighted(*edges, kind=nx.Graph):
    graph = kind()
    graph.add_weighted_edges_from(edges)
    return graph


def test_laplacian_of_a_paw_by_hand():
    # A triangle 0, 1, 2 with agent 3 hanging on 2: degrees 2, 2, 3, 1.
    graph = nx.Graph([(0, 1), (1, 2), (0, 2), (2, 3)])
    expected = [[0.75, 0.125, 0.125, 0], [0.125, 0.75, 0.125, 0], [0.125, 0.125, 0.625, 0.125], [0, 0, 0.125, 0.875]]
    assert topologies.laplacian(graph, epsilon=0.125).toarray().tolist() == expected
    expected = [[0.5, 0.25, 0.25, 0], [0.25, 0.5, 0.25, 0], [0.25, 0.25, 0.25, 0.25], [0, 0, 0.25, 0.75]]
    assert topologies.laplacian(graph).toarray().tolist() == expected
    assert topologies.max_degree(graph).toarray().tolist() == expected


def test_laplacian_is_that_of_networkx():
    graph = topologies.barabasi_albert(20, 3, seed=2)
    expected = np.eye(20) - 0.05 * nx.laplacian_matrix(graph).toarray()
    np.testing.assert_allclose(topologies.laplacian(graph, epsilon=0.05).toarray(), expected, rtol=0, atol=1e-15)


def test_laplacian_with_weights_of_edges_by_hand():
    graph = weighted((0, 1, 2.0), (1, 2, 1.0))
    expected = [[0.5, 0.5, 0], [0.5, 0.25, 0.25], [0, 0.25, 0.75]]
    assert topologies.laplacian(graph, weight="weight").toarray().tolist() == expected  # 1 / (1 + 3)
    assert topologies.laplacian(nx.to_numpy_array(graph), weight="weight").toarray().tolist() == expected
    halves = [[0.75, 0.25, 0], [0.25, 0.625, 0.125], [0, 0.125, 0.875]]
    assert topologies.laplacian(graph, epsilon=0.125, weight="weight").toarray().tolist() == halves
    unweighted = topologies.laplacian(topologies.path(3))
    assert np.array_equal(topologies.laplacian(graph).toarray(), unweighted.toarray())


def test_the_best_laplacian_epsilon_is_two_over_the_outer_eigenvalues():
    graph = nx.convert_node_labels_to_integers(nx.complete_bipartite_graph(3, 4))
    values = np.linalg.eigvalsh(nx.laplacian_matrix(graph).toarray().astype(float))
    best = 2 / (values[1] + values[-1])
    assert best == pytest.approx(1 / 5)  # 2 / (3 + 7), below 1 / 4
    modulus = 1 - topologies.spectral_gap(topologies.laplacian(graph, epsilon=best))
    assert modulus == pytest.approx((values[-1] - values[1]) / (values[-1] + values[1]), rel=0, abs=1e-14)
    for epsilon in (best - 1e-3, best + 1e-3):
        assert 1 - topologies.spectral_gap(topologies.laplacian(graph, epsilon=epsilon)) > modulus + 1e-4


@pytest.mark.parametrize("epsilon", [0, -0.1, 0.25, 0.3, math.nan, math.inf, "0.1"])
def test_laplacian_refuses_an_epsilon_out_of_range(epsilon):
    message = rf"epsilon must be a number in \(0, 1 / max degree\) = \(0, 0.25\), got {epsilon!r}"
    with pytest.raises(ValueError, match=message):
        topologies.laplacian(topologies.torus(3, 3), epsilon=epsilon)


def test_laplacian_without_edges_is_the_identity_for_any_epsilon():
    assert np.array_equal(topologies.laplacian(nx.empty_graph(3), epsilon=7).toarray(), np.eye(3))
    with pytest.raises(ValueError, match=r"epsilon must be a number in \(0, infinity\), got -1"):
        topologies.laplacian(nx.empty_graph(3), epsilon=-1)


def test_laplacian_names_the_edge_whose_two_weights_differ():
    with pytest.raises(ValueError, match=r"edge \(0, 2\) weighs 3 one way and 4 the other"):
        topologies.laplacian(np.array([[0, 1, 3], [1, 0, 0], [4, 0, 0]]), weight="weight")
