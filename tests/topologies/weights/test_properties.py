"""Laws of every weights function on graphs of every generator, and on random directed graphs."""

from functools import partial

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import topologies
from tests.helpers.turns import with_slow
from topologies import fastest, laplacian, lazy, max_degree, metropolis, pull, push, sinkhorn

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
