"""Weights against matrices by hand, their definitions and networkx; edge weights; Sinkhorn-Knopp."""

import math
import pickle
from functools import partial

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import topologies
from tests.helpers.networks import GRAPHS
from tests.helpers.turns import with_slow
from topologies import fastest, laplacian, lazy, max_degree, metropolis, pull, push, sinkhorn
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


# Laws of every weights function on graphs of every generator, and on random directed graphs.

SYMMETRIC = {
    "metropolis": metropolis,
    "max_degree": max_degree,
    "laplacian": laplacian,
    "small epsilon": partial(laplacian, epsilon=0.01),
    "lazy": lazy(metropolis),
    "sinkhorn": sinkhorn,
    "fastest": fastest,
    "fastest with a diagonal": partial(fastest, diagonal=0.125),
}
DIRECTED = {"push": push, "pull": pull}
# Fixed examples; programs to solve, so not very many of them.
fixed = settings(derandomize=True, deadline=None, database=None, max_examples=30)
agents, seeds = st.integers(1, 12), st.integers(0, 1000)
fractions = st.integers(0, 20).map(lambda twentieths: twentieths / 20)
GENERATORS = st.one_of(
    st.builds(topologies.ring, agents),
    st.builds(topologies.path, agents),
    st.builds(topologies.star, agents),
    st.builds(topologies.complete, agents),
    st.builds(topologies.grid, st.integers(1, 4), st.integers(1, 4)),
    st.builds(topologies.torus, st.integers(1, 4), st.integers(1, 4)),
    st.builds(topologies.hypercube, st.integers(0, 4)),
    st.builds(topologies.erdos_renyi, agents, fractions, seeds, connected=st.just(False)),
    st.builds(topologies.random_geometric, agents, st.floats(0.1, 1), seeds, connected=st.just(False)),
    st.builds(
        topologies.random_regular, st.integers(3, 6).map(lambda half: 2 * half), st.integers(0, 5), seeds, st.just(False)
    ),
    st.builds(topologies.small_world, st.integers(5, 12), st.sampled_from([2, 4]), fractions, seeds, connected=st.just(False)),
    st.builds(topologies.barabasi_albert, st.integers(4, 12), st.integers(1, 3), seeds),
)


@st.composite
def digraphs(draw, cycle=False):
    """Random directed graphs; with `cycle` they are strongly connected."""
    size, density, seed = draw(st.integers(1, 12)), draw(fractions), draw(seeds)
    edges = np.random.default_rng(seed).random((size, size)) < density
    if cycle:
        edges |= np.roll(np.eye(size, dtype=bool), 1, axis=1)
    np.fill_diagonal(edges, False)
    return nx.from_numpy_array(edges, create_using=nx.DiGraph)


def pattern(graph):
    """Where a mixing matrix may be nonzero: (i, j) for an edge from j to i, and the diagonal."""
    return nx.to_numpy_array(graph, nodelist=range(len(graph)), weight=None).T + np.eye(len(graph)) > 0


def check_layout(matrix, graph):
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.dtype == np.float64
    assert matrix.has_canonical_format
    assert (matrix.data != 0).all()
    assert not (matrix.toarray() != 0)[~pattern(graph)].any()


@pytest.mark.parametrize("name", with_slow(SYMMETRIC, "fastest with a diagonal"))
@fixed
@given(graph=GENERATORS)
def test_symmetric_rules_are_doubly_stochastic_on_the_edges(name, graph):
    matrix = SYMMETRIC[name](graph)
    check_layout(matrix, graph)
    dense = matrix.toarray()
    assert np.array_equal(dense, dense.T)
    np.testing.assert_allclose(dense.sum(axis=1), 1, rtol=0, atol=1e-14)
    assert (matrix.data > 0).all()
    if "fastest" not in name:
        assert np.array_equal(dense > 0, pattern(graph))
    least = {"lazy": 0.5, "fastest with a diagonal": 0.125}.get(name, 0)
    assert dense.diagonal().min() >= least - 1e-15
    values = np.linalg.eigvalsh(dense)
    assert values.min() >= (0 if name == "lazy" else -1) - 1e-14
    assert values.max() == pytest.approx(1, rel=0, abs=1e-14)
    gap = topologies.spectral_gap(matrix)
    assert gap > 1e-3 / len(graph) if nx.is_connected(graph) else gap == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("name", DIRECTED)
@fixed
@given(graph=st.one_of(GENERATORS, digraphs()))
def test_push_and_pull_are_stochastic_on_exactly_the_edges(name, graph):
    matrix = DIRECTED[name](graph)
    check_layout(matrix, graph)
    assert np.array_equal(matrix.toarray() > 0, pattern(graph))
    np.testing.assert_allclose(matrix.sum(axis=0 if name == "push" else 1), 1, rtol=0, atol=1e-15)
    assert np.array_equal(pull(graph).toarray(), push(graph.reverse() if graph.is_directed() else graph).toarray().T)


@fixed
@given(graph=digraphs(cycle=True))
def test_sinkhorn_is_doubly_stochastic_on_exactly_the_edges_of_strongly_connected_digraphs(graph):
    matrix = sinkhorn(graph)
    check_layout(matrix, graph)
    assert np.array_equal(matrix.toarray() > 0, pattern(graph))
    np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=0, atol=1e-14)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=0, atol=1e-14)


@pytest.mark.slow
@fixed
@given(graph=GENERATORS)
def test_fastest_is_never_slower_than_other_weights_and_with_negative_ones_never_slower_still(graph):
    def modulus(matrix):
        return 1 - topologies.spectral_gap(matrix)

    best = modulus(fastest(graph))
    assert all(best <= modulus(SYMMETRIC[name](graph)) + 1e-7 for name in SYMMETRIC)
    assert modulus(fastest(graph, nonnegative=False)) <= best + 1e-7


@pytest.mark.parametrize("name", [name for name in [*SYMMETRIC, *DIRECTED] if "fastest" not in name])  # which are not unique
@fixed
@given(graph=GENERATORS, seed=seeds)
def test_renumbering_the_agents_permutes_the_matrix(name, graph, seed):
    rule = (SYMMETRIC | DIRECTED)[name]
    order = np.random.default_rng(seed).permutation(len(graph))
    moved = rule(nx.relabel_nodes(graph, dict(enumerate(order.tolist())))).toarray()
    np.testing.assert_allclose(moved[np.ix_(order, order)], rule(graph).toarray(), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", [*SYMMETRIC, *DIRECTED])
def test_arrays_and_networkx_graphs_give_the_same_matrix(name):
    graph = topologies.erdos_renyi(10, 0.4, seed=3)
    rule, dense = (SYMMETRIC | DIRECTED)[name], nx.to_numpy_array(graph)
    expected = rule(graph).toarray()
    for given_as in (dense, sparse.csr_array(dense), sparse.coo_array(dense), dense.astype(bool)):
        assert np.array_equal(rule(given_as).toarray(), expected)
    assert np.array_equal(topologies.Static(graph, weights=rule).weights(0).toarray(), expected)


DIRECTED_GRAPHS = [nx.DiGraph([(0, 1), (1, 0)]), nx.DiGraph([(0, 1)]), np.array([[0, 1], [0, 0]]), sparse.eye_array(4, k=1)]


@pytest.mark.parametrize(
    ("rule", "name"),
    [(metropolis, "Metropolis"), (max_degree, "maximum-degree"), (laplacian, "Laplacian"), (fastest, "fastest mixing")],
)
def test_rules_for_undirected_graphs_reject_directed_ones(rule, name):
    for graph in DIRECTED_GRAPHS:
        with pytest.raises(
            ValueError, match=rf"{name} weights need an undirected graph.*topologies\.push, and a push-sum method"
        ):
            rule(graph)
    matrix = topologies.adjacency(topologies.ring(6)).toarray()
    matrix[4, 3] = 0
    with pytest.raises(ValueError, match=r"no edge back for \(3, 4\)"):
        rule(matrix)


@pytest.mark.parametrize("rule", [max_degree, laplacian, fastest, sinkhorn, push, pull, lazy(metropolis)])
def test_bad_graphs_are_rejected(rule):
    with pytest.raises(ValueError, match="graph is empty"):
        rule(nx.Graph())
    with pytest.raises(ValueError, match="self-loops at 1"):
        rule(nx.Graph([(0, 1), (1, 1)]))
    with pytest.raises(TypeError, match=r"must be a networkx\.Graph or DiGraph"):
        rule([[0, 1], [1, 0]])


# Fastest mixing weights against closed forms and the same problem stated to CVXPY as the paper states it.

ACCURACY = 1e-7  # of the modulus, by the interior-point solver


def modulus(matrix):
    return 1 - topologies.spectral_gap(matrix)


def near(value):
    return pytest.approx(value, rel=0, abs=ACCURACY)


def edge_transitive(graph):
    """Weight 2 / (lambda_1 + lambda_{n-1}) on every edge, and its modulus (Xiao & Boyd 2004, section 4.1)."""
    values = np.linalg.eigvalsh(nx.laplacian_matrix(graph).toarray().astype(float))
    return 2 / (values[1] + values[-1]), (values[-1] - values[1]) / (values[-1] + values[1])


# Edge-transitive graphs whose best constant weight leaves every agent a nonnegative self-weight.
TRANSITIVE = [
    *map(topologies.ring, (3, 4, 5, 8, 13)),
    *map(topologies.hypercube, (1, 2, 3, 4)),
    *(nx.convert_node_labels_to_integers(nx.complete_bipartite_graph(*pair)) for pair in ((2, 2), (2, 3), (3, 4), (3, 6))),
    topologies.complete(7),
    nx.petersen_graph(),
]


@pytest.mark.parametrize("graph", TRANSITIVE)
def test_edge_transitive_graphs(graph):
    weight, best = edge_transitive(graph)
    assert 1 - max(dict(graph.degree).values()) * weight >= -1e-12
    assert modulus(fastest(graph)) == near(best)
    assert modulus(fastest(graph, nonnegative=False)) == near(best)


@pytest.mark.parametrize("agents", [2, 3, 4, 7, 12])
def test_a_path_has_halves_everywhere(agents):
    # Boyd, Diaconis, Sun & Xiao, "Fastest mixing Markov chain on a path" (2006).
    matrix = fastest(topologies.path(agents))
    assert modulus(matrix) == near(math.cos(math.pi / agents))
    if agents <= 3:
        expected = np.diag(np.full(agents - 1, 0.5), 1) + np.diag(np.full(agents - 1, 0.5), -1)
        np.testing.assert_allclose(matrix.toarray(), expected + np.diag(1 - expected.sum(axis=1)), rtol=0, atol=ACCURACY)


@pytest.mark.parametrize("agents", [4, 6, 30])
def test_a_star_gives_its_centre_no_weight_or_with_negative_weights_is_edge_transitive(agents):
    graph = topologies.star(agents)
    matrix, free = fastest(graph), fastest(graph, nonnegative=False)
    assert modulus(matrix) == near(1 - 1 / (agents - 1))
    assert matrix.diagonal()[0] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(matrix.toarray()[0, 1:], 1 / (agents - 1), rtol=0, atol=ACCURACY)
    weight, best = edge_transitive(graph)
    assert (weight, best) == pytest.approx((2 / (agents + 1), (agents - 1) / (agents + 1)))
    assert modulus(free) == near(best)
    assert free.diagonal()[0] < 0


@pytest.mark.parametrize("diagonal", [0.1, 0.5])
def test_a_lower_bound_of_self_weights(diagonal):
    matrix = fastest(topologies.star(6), diagonal=diagonal)
    assert matrix.diagonal().min() == pytest.approx(diagonal, rel=0, abs=1e-12)
    assert modulus(matrix) == near(1 - (1 - diagonal) / 5)


def test_slowing_all_edges_down_alike_is_worse_than_a_bound_on_self_weights():
    graph = nx.wheel_graph(6)
    free, bound = fastest(graph).toarray(), fastest(graph, diagonal=0.4).toarray()
    slowed = np.eye(6) + (0.6 / (1 - free.diagonal().min())) * (free - np.eye(6))
    assert min(slowed.diagonal().min(), bound.diagonal().min()) >= 0.4 - 1e-12
    assert modulus(bound) < modulus(slowed) - 0.05


@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_agree_with_the_problem_as_the_papers_state_it(seed, nonnegative):
    graph = topologies.erdos_renyi(9, 0.35, seed=seed)
    matrix, off = cp.Variable((9, 9), symmetric=True), 1 - np.eye(9) - nx.to_numpy_array(graph)
    constraints = [cp.sum(matrix, axis=1) == 1, cp.multiply(off, matrix) == 0, *([matrix >= 0] if nonnegative else [])]
    program = cp.Problem(cp.Minimize(cp.sigma_max(matrix - 1 / 9)), constraints)
    program.solve(solver=cp.CLARABEL)
    assert modulus(fastest(graph, nonnegative=nonnegative)) == near(program.value)


@pytest.mark.parametrize("nonnegative", [True, False])
def test_sums_are_exactly_one_in_any_order(nonnegative):
    rng, dense = (
        np.random.default_rng(0),
        fastest(topologies.random_geometric(20, 0.45, seed=1), nonnegative=nonnegative).toarray(),
    )
    assert np.array_equal(dense, dense.T)
    for order in (rng.permutation(20) for _ in range(10)):
        assert set(dense[order].sum(axis=0)) == set(dense[:, order].sum(axis=1)) == {1.0}


def test_each_component_is_as_fast_as_alone():
    graph = nx.disjoint_union_all([topologies.star(5), nx.empty_graph(2), topologies.ring(6)])
    matrix = fastest(graph).toarray()
    assert modulus(matrix[:5, :5]) == near(0.75)
    assert np.array_equal(matrix[5:7, 5:7], np.eye(2))
    assert modulus(matrix[7:, 7:]) == near(edge_transitive(topologies.ring(6))[1])
    assert np.count_nonzero(matrix[:7, 7:]) == 0
    assert fastest(nx.empty_graph(500)).nnz == 500  # the bound of agents is one of connected agents


def test_edges_that_do_not_help_are_not_stored():
    matrix = fastest(nx.gnm_random_graph(20, 60, seed=0))
    used = nx.Graph(zip(*sparse.triu(matrix, 1).nonzero()))
    assert used.number_of_edges() == 54
    # The graph without the others is as fast.
    assert modulus(fastest(nx.to_numpy_array(used, nodelist=range(20)))) == near(modulus(matrix))
