"""Spectral gaps against closed forms and dense eigenvalues; the agents' own estimate of the gap."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies
from tests.helpers.refusals import refusals
from tests.helpers.turns import with_slow


def near(value):
    return pytest.approx(value, rel=0, abs=1e-13)


def gap(graph):
    return topologies.spectral_gap(topologies.metropolis(graph))


# 3 to 999 agents go through dense eigenvalues, 1200 through Lanczos, 6000 through the factorisation.
@pytest.mark.parametrize("agents", with_slow([3, 4, 10, 51, 999, 1200, 6000], 6000))
def test_gap_of_a_ring(agents):
    # Circulant with weights 1/3: eigenvalues (1 + 2 cos(2 pi k / n)) / 3; the last in size is -1/3.
    second = (1 + 2 * math.cos(2 * math.pi / agents)) / 3
    assert gap(topologies.ring(agents)) == near(1 - max(second, 1 / 3 if agents % 2 == 0 else 0))


@pytest.mark.parametrize(("graph", "expected"), [
    (topologies.path(1), 1),
    *[(topologies.complete(agents), 1) for agents in (2, 5, 40)],
    # Differences between leaves of a star shrink by 1 - 1/n; the centre against the leaves vanishes at once.
    *[(topologies.star(agents), 1 / agents) for agents in (4, 30, 1500)],
    # Eigenvalues of a hypercube are 1 - 2 k / (d + 1) for k = 0, ..., d.
    *[(topologies.hypercube(dimension), 2 / (dimension + 1)) for dimension in (1, 3, 6, 11)],
    *[(nx.disjoint_union(topologies.ring(size), topologies.ring(size)), 0) for size in (10, 1001)],
])  # fmt: skip
def test_gaps_in_closed_form(graph, expected):
    assert gap(graph) == near(expected)


@pytest.mark.slow
@pytest.mark.parametrize(("matrix", "expected"), [
    (np.full((1001, 1001), 1 / 1001), near(1)),  # of a complete graph: Lanczos' method ends at once
    (topologies.adjacency(topologies.ring(8)) / 2, near(0)),  # a bipartite graph without self-weights
    (np.array([[2.0, -1.0], [-1.0, 2.0]]), near(-2)),  # the disagreement grows
    # On an even ring with self-weights e the eigenvalues are e + (1 - e) cos(2 pi k / n), the lowest 2 e - 1.
    ((1 - 1e-9) / 2 * topologies.adjacency(topologies.ring(6000)) + 1e-9 * sparse.eye_array(6000),
     pytest.approx(2e-9, rel=1e-6)),
])  # fmt: skip
def test_gaps_of_other_matrices(matrix, expected):
    assert topologies.spectral_gap(matrix) == expected


def test_lanczos_agrees_with_dense_eigenvalues():
    graph = topologies.random_regular(1100, 4, seed=0)
    values = np.linalg.eigvalsh(topologies.metropolis(graph).toarray())
    assert gap(graph) == near(1 - max(values[-2], -values[0]))


@pytest.mark.parametrize("rule", [topologies.push, topologies.pull])
@pytest.mark.parametrize("agents", [30, 1100])
def test_row_or_column_stochastic_matrices(agents, rule):
    # One eigenvalue is 1, with the all-ones eigenvector on one side only; subtracting averages removes it.
    graph = topologies.erdos_renyi(agents, 12 / agents, seed=0)
    pattern = topologies.adjacency(graph).toarray() + np.eye(agents)
    symmetric = pattern / np.sqrt(np.outer(pattern.sum(axis=0), pattern.sum(axis=0)))  # similar to both
    second = np.sort(abs(np.linalg.eigvalsh(symmetric)))[-2]
    assert topologies.spectral_gap(rule(graph)) == pytest.approx(1 - second, rel=0, abs=1e-12)


@pytest.mark.parametrize("agents", [6, 1500])
def test_the_lowest_eigenvalue(agents):
    # Metropolis weights of an even ring are 1/3 each: 1/3 + 2/3 cos(pi) at the alternating vector.
    found = topologies.lowest_eigenvalue(topologies.metropolis(topologies.ring(agents)))
    assert -1 / 3 - 1e-12 <= found <= -1 / 3 + 1e-9
    with pytest.raises(ValueError, match="matrix must be symmetric"):
        topologies.lowest_eigenvalue(np.array([[0.5, 0.5], [0.4, 0.6]]))
    with pytest.raises(ValueError, match="finite"):
        topologies.lowest_eigenvalue(np.full((3, 3), np.nan))


@pytest.mark.parametrize(
    "graph", [topologies.ring(12), topologies.grid(3, 4), topologies.erdos_renyi(15, 0.3, seed=1), topologies.path(7)]
)
def test_the_estimate_of_every_agent_is_close_to_the_gap(graph):
    found = topologies.estimate_gap(topologies.Static(graph), exchanges=400)
    np.testing.assert_allclose(found.gaps, gap(graph), rtol=2e-2)
    assert found.exchanges == 400
    assert found.floats == 200 * 8 + 200 * 200


def test_a_short_power_iteration_overestimates_the_gap_and_is_exact_on_complete_graphs():
    graph = topologies.path(20)
    short, long = (topologies.estimate_gap(topologies.Static(graph), exchanges=n).gaps.mean() for n in (40, 800))
    assert gap(graph) * (1 - 1e-9) <= long < short
    assert topologies.estimate_gap(topologies.Static(topologies.complete(6))).gaps.min() > 1 - 1e-12


test_refusals = refusals(
    (lambda: topologies.spectral_gap(np.ones((2, 3))), ValueError, r"must be square with at least one row, got shape \(2, 3\)"),
    (lambda: topologies.spectral_gap(np.ones(4)), ValueError, r"must be square with at least one row, got shape \(4,\)"),
    (lambda: topologies.spectral_gap(np.zeros((0, 0))), ValueError,
     r"must be square with at least one row, got shape \(0, 0\)"),
    (lambda: topologies.spectral_gap(topologies.adjacency(topologies.star(4))), ValueError,
     "rows or the columns of matrix must sum to one; neither do"),
    (lambda: topologies.spectral_gap(np.array([[np.nan, 1.0], [0.0, 1.0]])), ValueError,
     "rows or the columns of matrix must sum to one; neither do"),
)  # fmt: skip
