"""Laplacian, maximum-degree, push, pull, lazy and given matrices against hand-computed ones; weights of edges; refusals."""

import math
import pickle
from functools import partial

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies
from topologies.weights.edges import edge_weights

DIGRAPH = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (3, 0)])


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


def test_push_and_pull_by_hand():
    third = 1 / 3
    # Column j holds 1 / (1 + out-degree of j), out-degrees 2, 1, 2, 1; an edge from j to i is the entry (i, j).
    expected = [[third, 0, third, 0.5], [third, 0.5, 0, 0], [third, 0.5, third, 0], [0, 0, third, 0.5]]
    assert topologies.push(DIGRAPH).toarray().tolist() == expected
    # Row i holds 1 / (1 + in-degree of i), in-degrees 2, 1, 2, 1.
    expected = [[third, 0, third, third], [0.5, 0.5, 0, 0], [third, third, third, 0], [0, 0, 0.5, 0.5]]
    assert topologies.pull(DIGRAPH).toarray().tolist() == expected


def test_push_and_pull_send_undirected_edges_both_ways():
    graph = topologies.star(4)
    expected = [[0.25, 0.5, 0.5, 0.5], [0.25, 0.5, 0, 0], [0.25, 0, 0.5, 0], [0.25, 0, 0, 0.5]]
    assert topologies.push(graph).toarray().tolist() == expected
    assert np.array_equal(topologies.pull(graph).toarray(), topologies.push(graph).toarray().T)


def test_lazy_is_the_average_with_the_identity():
    graph = topologies.path(3)
    expected = (np.eye(3) + topologies.metropolis(graph).toarray()) / 2
    assert np.array_equal(topologies.lazy(topologies.metropolis)(graph).toarray(), expected)
    quarter = topologies.lazy(topologies.lazy(topologies.metropolis))(graph).toarray()
    np.testing.assert_allclose(quarter, (np.eye(3) + expected) / 2, rtol=0, atol=1e-16)


def test_lazy_weights_can_be_pickled_compared_and_named():
    rule = topologies.lazy(topologies.metropolis)
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert rule != topologies.lazy(topologies.max_degree)
    assert repr(topologies.Static(topologies.path(2), weights=rule)) == "Static(agents=2, edges=1, weights=lazy(metropolis))"
    deep = topologies.lazy(partial(topologies.laplacian, epsilon=0.25))
    assert np.array_equal(pickle.loads(pickle.dumps(deep))(topologies.path(2)).toarray(), [[0.875, 0.125], [0.125, 0.875]])


def test_lazy_needs_a_function():
    with pytest.raises(TypeError, match=r"weights must be a function .* got a csr_array; topologies\.from_matrix"):
        topologies.lazy(topologies.metropolis(topologies.path(3)))


def test_lazy_refuses_weights_off_the_edges():
    def backwards(graph):
        return topologies.push(graph).T

    with pytest.raises(ValueError, match="weights function backwards returned nonzeros off the edges"):
        topologies.lazy(backwards)(DIGRAPH)


MINE = [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]]


@pytest.mark.parametrize("convert", [list, np.array, sparse.csr_array, sparse.coo_array, sparse.csc_matrix])
def test_a_given_matrix_is_used_as_it_is(convert):
    rule = topologies.from_matrix(convert(MINE))
    schedule = topologies.Static(topologies.path(3), weights=rule)
    assert schedule.weights(0).toarray().tolist() == MINE
    assert topologies.schedule_from_matrix(convert(MINE)).weights(0).toarray().tolist() == MINE
    assert pickle.loads(pickle.dumps(rule))(None).toarray().tolist() == MINE


def test_changing_a_given_matrix_changes_nothing():
    matrix = sparse.csr_array(MINE)
    rule = topologies.from_matrix(matrix)
    matrix.data[:] = 0
    rule(None).data[:] = 0
    assert rule(None).toarray().tolist() == MINE


def test_a_given_matrix_may_be_stochastic_in_rows_or_columns_or_both():
    for matrix in (topologies.push(DIGRAPH), topologies.pull(DIGRAPH), topologies.metropolis(topologies.ring(5))):
        schedule = topologies.schedule_from_matrix(matrix)
        assert np.array_equal(schedule.weights(0).toarray(), matrix.toarray())


def test_the_graph_of_a_matrix_runs_against_its_entries():
    graph = topologies.schedule_from_matrix(topologies.push(DIGRAPH)).graph(0)
    assert graph.is_directed()
    assert set(graph.edges) == set(DIGRAPH.edges)
    ring = topologies.schedule_from_matrix(topologies.metropolis(topologies.ring(5))).graph(0)
    assert not ring.is_directed()
    assert set(ring.edges) == set(topologies.ring(5).edges)


def test_a_given_matrix_must_fit_its_graph():
    with pytest.raises(ValueError, match=r"weights function from_matrix returned nonzeros off the edges.*\(0, 1\)"):
        topologies.Static(nx.Graph([(0, 2), (1, 2)]), weights=topologies.from_matrix(MINE))
    with pytest.raises(ValueError, match=r"from_matrix must return a scipy sparse matrix of shape \(4, 4\).* \(3, 3\)"):
        topologies.Static(topologies.path(4), weights=topologies.from_matrix(MINE))


@pytest.mark.parametrize("function", [topologies.from_matrix, topologies.schedule_from_matrix])
@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.5]], r"must be square with at least one row, got shape \(1, 2\)"),
        (np.zeros((0, 0)), "must be square with at least one row"),
        ([[1.0, 0.0], [0.5, math.nan]], r"not finite: nan at \(1, 1\), so row 1 has no sum"),
        ([[math.inf, 0.0], [0.5, 0.5]], r"not finite: inf at \(0, 0\), so row 0 has no sum"),
        ([[1.25, -0.25], [-0.5, 1.5]], r"negative weights, the least -0.5 at \(1, 0\)"),
        ([[0.0, 1.0], [1.0, 0.0]], r"zeros on the diagonal, at rows 0, 1: these agents give themselves no weight"),
        (np.roll(np.eye(5), 1, axis=1), r"zeros on the diagonal, at rows 0, 1, 2, \.\.\."),
        ([[0.5, 0.25], [0.25, 0.5]], r"row 0 sums to 0\.75 and column 0 to 0\.75"),
        ([[0.5, 0.5, 0], [0, 0.9, 0], [0, 0, 1.25]], r"row 2 sums to 1\.25 and column 0 to 0\.5"),
        ([[1.0, 0.0], [1e-6, 1.0]], r"row 1 sums to 1\.000001 and column 0 to 1\.000001"),
    ],
)
def test_bad_matrices_are_refused(function, matrix, message):
    with pytest.raises(ValueError, match=message):
        function(matrix)


def test_weights_of_edges_follow_the_order_of_the_agents():
    graph = weighted((3, 1, 5.0), (1, 0, 2.0), (0, 2, 4.0))
    expected = np.zeros((4, 4))
    for i, j, value in graph.edges(data="weight"):
        expected[i, j] = expected[j, i] = value
    assert np.array_equal(edge_weights(graph, "weight").toarray(), expected)
    directed = weighted(("b", "a", 1.5), ("a", "c", 2.5), ("c", "b", 3.5), kind=nx.DiGraph)
    assert edge_weights(directed, "weight").toarray().tolist() == [[0, 1.5, 0], [0, 0, 2.5], [3.5, 0, 0]]
    assert edge_weights(nx.empty_graph(2), "weight").toarray().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("rule", [topologies.laplacian, topologies.sinkhorn])
@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (topologies.path(3), r"edge \(0, 1\) has no attribute 'weight'; every edge needs a weight"),
        (
            weighted((0, 1, 1.0), (1, 2, -2.0)),
            r"edge \(1, 2\) has weight -2\.0; weights of edges must be finite numbers above 0",
        ),
        (weighted((0, 1, 1.0), (1, 2, 0)), r"edge \(1, 2\) has weight 0;"),
        (weighted(("a", "b", 1.0), ("b", "c", math.nan)), r"edge \('b', 'c'\) has weight nan;"),
        (weighted((0, 1, 1.0), (1, 2, "heavy")), r"edge \(1, 2\) has weight 'heavy';"),
        (np.array([[0, 1, 0], [1, 0, -3], [0, -3, 0]]), r"edge \(1, 2\) has weight -3\.0;"),
    ],
)
def test_bad_weights_of_edges_are_refused_by_name(rule, graph, message):
    with pytest.raises(ValueError, match=message):
        rule(graph, weight="weight")


def test_the_other_weights_need_none_of_the_edges():
    graph = weighted((0, 1, -1.0), (1, 2, math.nan))
    for rule in (topologies.laplacian, topologies.max_degree, topologies.sinkhorn, topologies.push, topologies.pull):
        assert np.array_equal(rule(graph).toarray(), rule(topologies.path(3)).toarray())
