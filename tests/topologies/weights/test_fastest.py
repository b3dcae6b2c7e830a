"""Fastest mixing weights against closed forms and the same problem stated to CVXPY as the paper states it."""

import math

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies
from topologies import fastest

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
