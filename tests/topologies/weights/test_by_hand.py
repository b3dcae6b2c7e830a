"""Weights against matrices by hand, their definitions and networkx; edge weights; Sinkhorn-Knopp."""

import math
import pickle
from functools import partial

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies
from tests.helpers.networks import GRAPHS
from topologies import sinkhorn
from topologies.weights.edges import edge_weights

PATH, STAR, TRIANGLE = topologies.path(3), topologies.star(4), nx.Graph([(0, 1), (1, 2), (0, 2), (2, 3)])
DIGRAPH = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (3, 0)])
T = 1 / 3


def weighted(*edges, kind=nx.Graph):
    graph = kind()
    graph.add_weighted_edges_from(edges)
    return graph


UNEQUAL = weighted((0, 1, 2.0), (1, 2, 1.0))


@pytest.mark.parametrize(("rule", "graph", "expected"), [
    (topologies.metropolis, STAR, [[0.25, 0.25, 0.25, 0.25], [0.25, 0.75, 0, 0], [0.25, 0, 0.75, 0], [0.25, 0, 0, 0.75]]),
    # Column j of push is 1 / (1 + out-degree of j), row i of pull 1 / (1 + in-degree of i); (i, j) is an edge from j to i.
    (topologies.push, DIGRAPH, [[T, 0, T, 0.5], [T, 0.5, 0, 0], [T, 0.5, T, 0], [0, 0, T, 0.5]]),
    (topologies.pull, DIGRAPH, [[T, 0, T, T], [0.5, 0.5, 0, 0], [T, T, T, 0], [0, 0, 0.5, 0.5]]),
    (topologies.push, STAR, [[0.25, 0.5, 0.5, 0.5], [0.25, 0.5, 0, 0], [0.25, 0, 0.5, 0], [0.25, 0, 0, 0.5]]),
    *[
        (rule, TRIANGLE, [[0.5, 0.25, 0.25, 0], [0.25, 0.5, 0.25, 0], [0.25, 0.25, 0.25, 0.25], [0, 0, 0.25, 0.75]])
        for rule in (topologies.laplacian, topologies.max_degree)
    ],
    (partial(topologies.laplacian, epsilon=7), nx.empty_graph(2), [[1, 0], [0, 1]]),
    (partial(topologies.laplacian, weight="weight"), UNEQUAL, [[0.5, 0.5, 0], [0.5, 0.25, 0.25], [0, 0.25, 0.75]]),
    (partial(topologies.laplacian, weight="weight"), nx.to_numpy_array(UNEQUAL),
     [[0.5, 0.5, 0], [0.5, 0.25, 0.25], [0, 0.25, 0.75]]),
    (partial(topologies.laplacian, epsilon=0.125, weight="weight"), UNEQUAL,
     [[0.75, 0.25, 0], [0.25, 0.625, 0.125], [0, 0.125, 0.875]]),
    (topologies.lazy(partial(topologies.laplacian, epsilon=0.25)), topologies.path(2), [[0.875, 0.125], [0.125, 0.875]]),
    (topologies.lazy(topologies.lazy(topologies.max_degree)), topologies.path(2), [[0.875, 0.125], [0.125, 0.875]]),
])  # fmt: skip
def test_matrices_by_hand(rule, graph, expected):
    assert rule(graph).toarray().tolist() == expected


@pytest.mark.parametrize("name", GRAPHS)
def test_metropolis_is_the_definition(name):
    graph = GRAPHS[name]
    found, expected = topologies.metropolis(graph).toarray(), np.zeros((len(graph), len(graph)))
    for i, j in graph.edges:
        expected[i, j] = expected[j, i] = 1 / (1 + max(graph.degree[i], graph.degree[j]))
    apart = ~np.eye(len(graph), dtype=bool)
    assert np.array_equal(found[apart], expected[apart])
    # The diagonal is one minus a sum, here in another order.
    np.testing.assert_allclose(np.diag(found), 1 - expected.sum(axis=1), rtol=0, atol=1e-15)


def test_laplacian_is_that_of_networkx():
    graph = topologies.barabasi_albert(20, 3, seed=2)
    expected = np.eye(20) - 0.05 * nx.laplacian_matrix(graph).toarray()
    np.testing.assert_allclose(topologies.laplacian(graph, epsilon=0.05).toarray(), expected, rtol=0, atol=1e-15)


def test_a_lazy_rule_is_the_average_with_the_identity_and_can_be_pickled_compared_and_named():
    rule = topologies.lazy(topologies.metropolis)
    assert np.array_equal(rule(PATH).toarray(), (np.eye(3) + topologies.metropolis(PATH).toarray()) / 2)
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert rule != topologies.lazy(topologies.max_degree)
    assert repr(topologies.Static(topologies.path(2), weights=rule)) == "Static(agents=2, edges=1, weights=lazy(metropolis))"


def test_a_lazy_rule_rejects_weights_off_the_edges():
    def backwards(graph):
        return topologies.push(graph).T

    with pytest.raises(ValueError, match="weights function backwards returned nonzeros off the edges"):
        topologies.lazy(backwards)(DIGRAPH)


def test_edge_weights_follow_the_order_of_the_agents():
    graph = weighted((3, 1, 5.0), (1, 0, 2.0), (0, 2, 4.0))
    assert np.array_equal(edge_weights(graph, "weight").toarray(), nx.to_numpy_array(graph, nodelist=range(4)))
    directed = weighted(("b", "a", 1.5), ("a", "c", 2.5), ("c", "b", 3.5), kind=nx.DiGraph)
    assert edge_weights(directed, "weight").toarray().tolist() == [[0, 1.5, 0], [0, 0, 2.5], [3.5, 0, 0]]
    assert edge_weights(nx.empty_graph(2), "weight").toarray().tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("rule", [topologies.laplacian, topologies.sinkhorn])
@pytest.mark.parametrize(("graph", "message"), [
    (PATH, r"edge \(0, 1\) has no attribute 'weight'; every edge needs one"),
    (weighted((0, 1, 1.0), (1, 2, -2.0)), r"edge \(1, 2\) has weight -2\.0; weights of edges must be finite .* above 0"),
    (weighted((0, 1, 1.0), (1, 2, 0)), r"edge \(1, 2\) has weight 0;"),
    (weighted(("a", "b", 1.0), ("b", "c", math.nan)), r"edge \('b', 'c'\) has weight nan;"),
    (weighted((0, 1, 1.0), (1, 2, "heavy")), r"edge \(1, 2\) has weight 'heavy';"),
    (np.array([[0, 1, 0], [1, 0, -3], [0, -3, 0]]), r"edge \(1, 2\) has weight -3\.0;"),
])  # fmt: skip
def test_bad_edge_weights_are_named(rule, graph, message):
    with pytest.raises(ValueError, match=message):
        rule(graph, weight="weight")


def test_the_two_weights_of_an_edge_must_be_equal_for_laplacian():
    with pytest.raises(ValueError, match=r"edge \(0, 2\) weighs 3 one way and 4 the other"):
        topologies.laplacian(np.array([[0, 1, 3], [1, 0, 0], [4, 0, 0]]), weight="weight")


@pytest.mark.filterwarnings("ignore:edge attribute")
def test_other_rules_do_not_read_edge_weights():
    graph = weighted((0, 1, -1.0), (1, 2, math.nan))
    for rule in (topologies.laplacian, topologies.max_degree, topologies.sinkhorn, topologies.push, topologies.pull):
        assert np.array_equal(rule(graph).toarray(), rule(PATH).toarray())


MINE = [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]]


@pytest.mark.parametrize("convert", [list, np.array, sparse.csr_array, sparse.coo_array, sparse.csc_matrix])
def test_a_given_matrix_is_used_as_it_is_and_copied(convert):
    given = convert(MINE)
    rule = topologies.from_matrix(given)
    assert topologies.schedule_from_matrix(given).weights(0).toarray().tolist() == MINE
    if hasattr(given, "data") and sparse.issparse(given):
        given.data[:] = 0
    rule(None).data[:] = 0
    assert topologies.Static(PATH, weights=rule).weights(0).toarray().tolist() == MINE
    assert pickle.loads(pickle.dumps(rule))(None).toarray().tolist() == MINE


@pytest.mark.parametrize(
    ("rule", "graph"), [(topologies.push, DIGRAPH), (topologies.pull, DIGRAPH), (topologies.metropolis, topologies.ring(5))]
)
def test_a_given_matrix_may_be_stochastic_either_way_and_edges_run_against_its_entries(rule, graph):
    schedule = topologies.schedule_from_matrix(rule(graph))
    assert np.array_equal(schedule.weights(0).toarray(), rule(graph).toarray())
    assert schedule.graph(0).is_directed() is graph.is_directed()
    assert set(schedule.graph(0).edges) == set(graph.edges)


def test_a_given_matrix_must_fit_its_graph():
    rule = topologies.from_matrix(MINE)
    with pytest.raises(ValueError, match=r"weights function from_matrix returned nonzeros off the edges.*\(0, 1\)"):
        topologies.Static(nx.Graph([(0, 2), (1, 2)]), weights=rule)
    with pytest.raises(ValueError, match=r"from_matrix must return a scipy sparse matrix of shape \(4, 4\).* \(3, 3\)"):
        topologies.Static(topologies.path(4), weights=rule)


@pytest.mark.parametrize("function", [topologies.from_matrix, topologies.schedule_from_matrix])
@pytest.mark.parametrize(("matrix", "message"), [
    ([[0.5, 0.5]], r"must be square with at least one row, got shape \(1, 2\)"),
    (np.zeros((0, 0)), "must be square with at least one row"),
    ([[1.0, 0.0], [0.5, math.nan]], r"not finite: nan at \(1, 1\)"),
    ([[math.inf, 0.0], [0.5, 0.5]], r"not finite: inf at \(0, 0\)"),
    ([[1.25, -0.25], [-0.5, 1.5]], r"negative weights, the least -0.5 at \(1, 0\)"),
    ([[0.0, 1.0], [1.0, 0.0]], r"zeros on the diagonal, at rows 0, 1: these agents ignore their own values"),
    (np.roll(np.eye(5), 1, axis=1), r"zeros on the diagonal, at rows 0, 1, 2, \.\.\."),
    ([[0.5, 0.25], [0.25, 0.5]], r"row 0 sums to 0\.75 and column 0 to 0\.75"),
    ([[0.5, 0.5, 0], [0, 0.9, 0], [0, 0, 1.25]], r"row 2 sums to 1\.25 and column 0 to 0\.5"),
    ([[1.0, 0.0], [1e-6, 1.0]], r"row 1 sums to 1\.000001 and column 0 to 1\.000001"),
])  # fmt: skip
def test_bad_matrices_are_rejected(function, matrix, message):
    with pytest.raises(ValueError, match=message):
        function(matrix)


# Sinkhorn-Knopp weights against matrices by hand and the plain iteration of the paper.


GOLDEN = (math.sqrt(5) - 1) / 2  # of a path: with scales (a, b, a), a^2 + a b = 1 and b^2 + 2 a b = 1


@pytest.mark.parametrize(("graph", "expected"), [
    (topologies.path(3), [[GOLDEN, 1 - GOLDEN, 0], [1 - GOLDEN, 2 * GOLDEN - 1, 1 - GOLDEN], [0, 1 - GOLDEN, GOLDEN]]),
    (nx.cycle_graph(5, create_using=nx.DiGraph), (np.eye(5) + np.roll(np.eye(5), 1, axis=0)) / 2),
    *[
        (regular, topologies.metropolis(regular).toarray())
        for regular in (topologies.ring(7), topologies.complete(6), topologies.hypercube(4), topologies.torus(3, 4))
    ],
])  # fmt: skip
def test_doubly_stochastic_matrices_by_hand(graph, expected):
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
