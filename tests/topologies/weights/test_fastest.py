"""Fastest mixing weights against closed forms and the same problem stated to CVXPY as the paper states it."""

import math
import time

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies

# How far the interior-point solver may leave the modulus from its optimum.
ACCURACY = 1e-7


def modulus(matrix):
    return 1 - topologies.spectral_gap(matrix)


def edge_transitive(graph):
    """Weight 2 / (lambda_1 + lambda_{n-1}) on every edge, and its modulus (Xiao & Boyd 2004, section 4.1)."""
    values = np.linalg.eigvalsh(nx.laplacian_matrix(graph).toarray().astype(float))
    return 2 / (values[1] + values[-1]), (values[-1] - values[1]) / (values[-1] + values[1])


def complete_bipartite(one, other):
    return nx.convert_node_labels_to_integers(nx.complete_bipartite_graph(one, other))


# Edge-transitive graphs whose best constant weight leaves every agent a nonnegative self-weight.
SYMMETRIC = {
    **{f"cycle {n}": topologies.ring(n) for n in (3, 4, 5, 8, 13)},
    **{f"hypercube {d}": topologies.hypercube(d) for d in (1, 2, 3, 4)},
    **{f"bipartite {pair}": complete_bipartite(*pair) for pair in ((2, 2), (2, 3), (3, 4), (3, 6))},
    "complete": topologies.complete(7),
    "petersen": nx.petersen_graph(),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_edge_transitive_graphs(name):
    graph = SYMMETRIC[name]
    weight, best = edge_transitive(graph)
    assert 1 - max(dict(graph.degree).values()) * weight >= -1e-12
    assert modulus(topologies.fastest(graph)) == pytest.approx(best, rel=0, abs=ACCURACY)
    assert modulus(topologies.fastest(graph, nonnegative=False)) == pytest.approx(best, rel=0, abs=ACCURACY)


@pytest.mark.parametrize("agents", [2, 3, 5, 8])
def test_a_complete_graph_averages_at_once(agents):
    matrix = topologies.fastest(topologies.complete(agents))
    np.testing.assert_allclose(matrix.toarray(), 1 / agents, rtol=0, atol=ACCURACY)


@pytest.mark.parametrize("agents", [2, 3, 4, 7, 12])
def test_a_path_has_halves_everywhere(agents):
    # Boyd, Diaconis, Sun & Xiao, "Fastest mixing Markov chain on a path" (2006).
    matrix = topologies.fastest(topologies.path(agents))
    assert modulus(matrix) == pytest.approx(math.cos(math.pi / agents), rel=0, abs=ACCURACY)
    if agents <= 3:
        expected = np.diag(np.full(agents - 1, 0.5), 1) + np.diag(np.full(agents - 1, 0.5), -1)
        np.testing.assert_allclose(matrix.toarray(), expected + np.diag(1 - expected.sum(axis=1)), rtol=0, atol=ACCURACY)


@pytest.mark.parametrize("agents", [4, 6, 30])
def test_a_star_gives_its_centre_no_weight(agents):
    matrix = topologies.fastest(topologies.star(agents))
    assert modulus(matrix) == pytest.approx(1 - 1 / (agents - 1), rel=0, abs=ACCURACY)
    assert matrix.diagonal()[0] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(matrix.toarray()[0, 1:], 1 / (agents - 1), rtol=0, atol=ACCURACY)


@pytest.mark.parametrize("agents", [4, 6, 30])
def test_a_star_with_negative_weights_is_edge_transitive(agents):
    graph = topologies.star(agents)
    weight, best = edge_transitive(graph)
    matrix = topologies.fastest(graph, nonnegative=False)
    assert (weight, best) == pytest.approx((2 / (agents + 1), (agents - 1) / (agents + 1)))
    assert modulus(matrix) == pytest.approx(best, rel=0, abs=ACCURACY)
    assert matrix.diagonal()[0] < 0 or agents <= 3


@pytest.mark.parametrize("diagonal", [0.1, 0.5])
def test_a_least_self_weight(diagonal):
    graph = topologies.star(6)
    matrix = topologies.fastest(graph, diagonal=diagonal)
    assert matrix.diagonal().min() == pytest.approx(diagonal, rel=0, abs=1e-12)
    assert modulus(matrix) == pytest.approx(1 - (1 - diagonal) / 5, rel=0, abs=ACCURACY)


@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_agree_with_the_problem_as_the_papers_state_it(seed, nonnegative):
    graph = topologies.erdos_renyi(9, 0.35, seed=seed)
    matrix = cp.Variable((9, 9), symmetric=True)
    off = 1 - np.eye(9) - nx.to_numpy_array(graph)
    constraints = [cp.sum(matrix, axis=1) == 1, cp.multiply(off, matrix) == 0]
    if nonnegative:
        constraints.append(matrix >= 0)
    program = cp.Problem(cp.Minimize(cp.sigma_max(matrix - 1 / 9)), constraints)
    program.solve(solver=cp.CLARABEL)
    assert modulus(topologies.fastest(graph, nonnegative=nonnegative)) == pytest.approx(program.value, rel=0, abs=ACCURACY)


def test_sums_are_exactly_one_in_any_order():
    rng = np.random.default_rng(0)
    for nonnegative in (True, False):
        dense = topologies.fastest(topologies.random_geometric(20, 0.45, seed=1), nonnegative=nonnegative).toarray()
        assert np.array_equal(dense, dense.T)
        for _ in range(10):
            order = rng.permutation(20)
            assert set(dense[order].sum(axis=0)) == set(dense[:, order].sum(axis=1)) == {1.0}


def test_each_component_is_as_fast_as_alone():
    graph = nx.disjoint_union_all([topologies.star(5), nx.empty_graph(2), topologies.ring(6)])
    matrix = topologies.fastest(graph).toarray()
    assert modulus(matrix[:5, :5]) == pytest.approx(0.75, rel=0, abs=ACCURACY)
    assert np.array_equal(matrix[5:7, 5:7], np.eye(2))
    assert modulus(matrix[7:, 7:]) == pytest.approx(edge_transitive(topologies.ring(6))[1], rel=0, abs=ACCURACY)
    assert np.count_nonzero(matrix[:7, 7:]) == 0


def test_edges_that_do_not_help_are_not_stored():
    graph = nx.gnm_random_graph(20, 60, seed=0)
    matrix = topologies.fastest(graph)
    used = nx.Graph(zip(*sparse.triu(matrix, 1).nonzero()))
    assert used.number_of_edges() == 54
    # The others can be left out of the graph without loss.
    assert modulus(topologies.fastest(nx.to_numpy_array(used, nodelist=range(20)))) == pytest.approx(
        modulus(matrix), rel=0, abs=ACCURACY
    )


@pytest.mark.slow
def test_fifty_agents_and_150_edges_take_seconds():
    graph = nx.gnm_random_graph(50, 150, seed=1)
    start = time.perf_counter()
    matrix = topologies.fastest(graph)
    assert time.perf_counter() - start < 20
    assert modulus(matrix) < modulus(topologies.sinkhorn(graph)) < modulus(topologies.metropolis(graph))


def test_too_many_agents_are_refused_before_any_work():
    message = r"semidefinite program of fastest allows at most 100 connected agents, got 101; use topologies\.metropolis"
    with pytest.raises(ValueError, match=message):
        topologies.fastest(topologies.ring(101))
    assert topologies.fastest(nx.empty_graph(500)).nnz == 500


@pytest.mark.parametrize("diagonal", [-0.1, 1, 1.5, math.nan, "half", None])
def test_a_least_self_weight_out_of_range_is_refused(diagonal):
    with pytest.raises(ValueError, match=rf"diagonal must be a number in \[0, 1\), got {diagonal!r}"):
        topologies.fastest(topologies.path(3), diagonal=diagonal)


def test_a_least_self_weight_needs_nonnegative_weights():
    with pytest.raises(ValueError, match=r"diagonal=0\.1 bounds self-weights, which nonnegative=False leaves free"):
        topologies.fastest(topologies.path(3), nonnegative=False, diagonal=0.1)


def test_a_bound_on_self_weights_is_part_of_the_optimum():
    """Where it binds at some agents only, to slow all edges down alike is worse."""
    graph = nx.wheel_graph(6)
    free, bound = topologies.fastest(graph).toarray(), topologies.fastest(graph, diagonal=0.4).toarray()
    slowed = np.eye(6) + (0.6 / (1 - free.diagonal().min())) * (free - np.eye(6))
    assert min(slowed.diagonal().min(), bound.diagonal().min()) >= 0.4 - 1e-12
    assert modulus(bound) < modulus(slowed) - 0.05
