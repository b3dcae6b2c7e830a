"""Spectral gaps against closed forms and dense eigenvalues."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies


# 3 to 999 agents go through dense eigenvalues, 1200 through Lanczos, 6000 through the factorisation.
@pytest.mark.parametrize("agents", [3, 4, 10, 51, 999, 1200, 6000])
def test_gap_of_a_ring(agents):
    # Circulant with weights 1/3: eigenvalues (1 + 2 cos(2 pi k / n)) / 3; the last in size is -1/3.
    expected = 1 - max((1 + 2 * math.cos(2 * math.pi / agents)) / 3, 1 / 3 if agents % 2 == 0 else 0)
    found = topologies.spectral_gap(topologies.metropolis(topologies.ring(agents)))
    assert found == pytest.approx(expected, rel=0, abs=1e-13)


def test_gap_of_a_ring_whose_lowest_eigenvalue_is_the_largest_in_modulus():
    # On an even ring with self-weights e the eigenvalues are e + (1 - e) cos(2 pi k / n), the lowest 2 e - 1.
    ring = topologies.adjacency(topologies.ring(6000))
    matrix = (1 - 1e-9) / 2 * ring + 1e-9 * sparse.eye_array(6000)
    assert topologies.spectral_gap(matrix) == pytest.approx(2e-9, rel=1e-6)


@pytest.mark.parametrize("agents", [2, 5, 40, 1001])
def test_gap_of_the_complete_graph_is_one(agents):
    matrix = topologies.metropolis(np.ones((agents, agents)) - np.eye(agents))
    assert topologies.spectral_gap(matrix) == pytest.approx(1, rel=0, abs=1e-13)


@pytest.mark.parametrize("agents", [4, 30, 1500])
def test_gap_of_a_star(agents):
    # Differences between leaves shrink by 1 - 1/n; the centre against the leaves vanishes at once.
    matrix = topologies.metropolis(topologies.star(agents))
    assert topologies.spectral_gap(matrix) == pytest.approx(1 / agents, rel=0, abs=1e-13)


@pytest.mark.parametrize("dimension", [1, 3, 6, 11])
def test_gap_of_a_hypercube(dimension):
    # Eigenvalues 1 - 2 k / (d + 1) for k = 0, ..., d.
    expected = 2 / (dimension + 1)
    matrix = topologies.metropolis(topologies.hypercube(dimension))
    assert topologies.spectral_gap(matrix) == pytest.approx(expected, rel=0, abs=1e-13)


def test_one_agent_agrees_with_itself():
    assert topologies.spectral_gap(topologies.metropolis(topologies.path(1))) == 1


@pytest.mark.parametrize("size", [10, 3000])
def test_gap_of_a_disconnected_graph_is_zero(size):
    graph = nx.disjoint_union(topologies.ring(size), topologies.ring(size))
    assert topologies.spectral_gap(topologies.metropolis(graph)) == pytest.approx(0, abs=1e-14)


def test_bipartite_graphs_without_self_weights_never_agree():
    matrix = topologies.adjacency(topologies.ring(8)) / 2
    assert topologies.spectral_gap(matrix) == pytest.approx(0, abs=1e-15)


def test_lanczos_agrees_with_dense_eigenvalues():
    matrix = topologies.metropolis(topologies.random_regular(1100, 4, seed=0))
    values = np.linalg.eigvalsh(matrix.toarray())
    assert topologies.spectral_gap(matrix) == pytest.approx(1 - max(values[-2], -values[0]), rel=0, abs=1e-13)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("agents", [30, 1100])
def test_row_or_column_stochastic_matrices(agents, axis):
    # One eigenvalue is 1, with the all-ones eigenvector on one side only; subtracting averages removes it.
    pattern = topologies.adjacency(topologies.erdos_renyi(agents, 12 / agents, seed=0)) + sparse.eye_array(agents)
    scale = sparse.diags_array(1 / pattern.sum(axis=axis))
    matrix = pattern @ scale if axis == 0 else scale @ pattern
    symmetric = pattern / np.sqrt(np.outer(pattern.sum(axis=0), pattern.sum(axis=0)))  # similar to it
    second = np.sort(abs(np.linalg.eigvalsh(symmetric.toarray())))[-2]
    assert topologies.spectral_gap(matrix) == pytest.approx(1 - second, rel=0, abs=1e-12)


def test_gap_bounds_how_fast_disagreement_shrinks():
    matrix = topologies.metropolis(topologies.grid(5, 5))
    gap = topologies.spectral_gap(matrix)
    values = np.random.default_rng(1).standard_normal(25)
    before = np.linalg.norm(values - values.mean())
    for _ in range(60):
        values = matrix @ values
    after = np.linalg.norm(values - values.mean())
    assert after <= before * (1 - gap) ** 60 * (1 + 1e-12)
    ratio = np.linalg.norm(matrix @ values - values.mean()) / after
    assert ratio == pytest.approx(1 - gap, rel=1e-3)


def test_negative_weights_can_make_disagreement_grow():
    matrix = np.array([[2.0, -1.0], [-1.0, 2.0]])
    assert topologies.spectral_gap(matrix) == pytest.approx(-2)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), r"must be square with at least one row, got shape \(2, 3\)"),
        (np.ones(4), r"must be square with at least one row, got shape \(4,\)"),
        (np.zeros((0, 0)), r"must be square with at least one row, got shape \(0, 0\)"),
        (topologies.adjacency(topologies.star(4)), "rows or the columns of matrix must sum to one; neither do"),
        (np.array([[np.nan, 1.0], [0.0, 1.0]]), "rows or the columns of matrix must sum to one; neither do"),
    ],
)
def test_bad_matrices_are_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        topologies.spectral_gap(matrix)


@pytest.mark.parametrize("agents", [6, 1500])
def test_the_lowest_eigenvalue_of_a_ring_is_known(agents):
    # Metropolis weights of an even ring are 1/3 each: 1/3 + 2/3 cos(pi) at the alternating vector.
    found = topologies.lowest_eigenvalue(topologies.metropolis(topologies.ring(agents)))
    assert -1 / 3 - 1e-12 <= found <= -1 / 3 + 1e-9


def test_the_lowest_eigenvalue_is_of_symmetric_matrices():
    with pytest.raises(ValueError, match="matrix must be symmetric"):
        topologies.lowest_eigenvalue(np.array([[0.5, 0.5], [0.4, 0.6]]))
    with pytest.raises(ValueError, match="finite"):
        topologies.lowest_eigenvalue(np.full((3, 3), np.nan))
