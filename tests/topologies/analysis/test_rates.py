"""Mixing times against powers of matrices; measured contraction against eigenvalues of (products of) matrices."""

import math

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies
from tests.helpers.matrices_in_turn import MatricesInTurn
from tests.helpers.refusals import refusals
from tests.helpers.turns import with_slow

DIGRAPH = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (3, 0), (1, 3)])
HALVES = np.full((2, 2), 0.5)
GROWING = np.array([[2.0, -1.0], [-1.0, 2.0]])
CUBE = topologies.hypercube(3)
DIGITS = [nx.Graph([edge for edge in CUBE.edges if edge[0] ^ edge[1] == 1 << digit]) for digit in range(3)]


def second(matrix):
    """Modulus of the second largest eigenvalue of a dense row or column stochastic matrix."""
    return np.sort(abs(np.linalg.eigvals(matrix)))[-2]


@pytest.mark.parametrize("accuracy", [0.5, 1e-2, 1e-6])
@pytest.mark.parametrize(
    "graph", [topologies.ring(8), topologies.grid(3, 4), topologies.star(7), topologies.erdos_renyi(12, 0.3, seed=1)]
)
def test_mixing_time_is_the_first_power_within_the_accuracy(graph, accuracy):
    matrix = topologies.metropolis(graph)
    rounds = topologies.mixing_time(matrix, accuracy)
    deviation = matrix.toarray() - 1 / len(graph)
    norms = [np.linalg.norm(np.linalg.matrix_power(deviation, power), 2) for power in (rounds, rounds - 1)]
    assert norms[0] <= accuracy < norms[1]


@pytest.mark.parametrize(("matrix", "accuracy", "rounds"), [
    (np.array([[0.55, 0.45], [0.45, 0.55]]), 0.01, 2),  # the modulus is 1/10 exactly
    (np.array([[0.55, 0.45], [0.45, 0.55]]), 0.001, 3),
    (topologies.metropolis(topologies.complete(9)), 0.01, 1),
    (topologies.metropolis(topologies.path(1)), 0.01, 1),
    (topologies.metropolis(nx.empty_graph(3)), 0.01, math.inf),
    (topologies.adjacency(topologies.ring(4)) / 2, 0.01, math.inf),
    (GROWING, 0.01, math.inf),
])  # fmt: skip
def test_mixing_times_by_hand(matrix, accuracy, rounds):
    assert topologies.mixing_time(matrix, accuracy) == rounds


@pytest.mark.parametrize(("graph", "weights"), [
    (topologies.ring(10), topologies.metropolis),
    (topologies.path(6), topologies.sinkhorn),
    (topologies.star(9), topologies.metropolis),
    (topologies.star(9), topologies.lazy(topologies.laplacian)),
    (CUBE, topologies.sinkhorn),
    (topologies.erdos_renyi(20, 0.3, seed=4), topologies.lazy(topologies.laplacian)),
    (topologies.barabasi_albert(30, 2, seed=0), topologies.metropolis),
])  # fmt: skip
def test_contraction_of_a_symmetric_matrix_is_its_second_modulus(graph, weights):
    schedule = topologies.Static(graph, weights=weights)
    expected = 1 - topologies.spectral_gap(schedule.weights(0))
    assert topologies.contraction(schedule, 2000) == pytest.approx(expected, rel=0, abs=1e-6)


@pytest.mark.parametrize("weights", [topologies.push, topologies.pull, topologies.sinkhorn])
def test_contraction_of_directed_weights_is_their_second_modulus(weights):
    schedule = topologies.Static(DIGRAPH, weights=weights)
    # Eigenvalues are complex, so only the mean of the factors over many rounds converges.
    assert topologies.contraction(schedule, 2500) == pytest.approx(second(schedule.weights(0).toarray()), rel=0, abs=4e-4)


@pytest.mark.parametrize("weights", [topologies.metropolis, topologies.push])
def test_contraction_of_a_periodic_schedule_is_that_of_the_product_over_a_period(weights):
    graphs = [topologies.path(6), topologies.star(6), nx.Graph([(0, 5), (1, 4), (2, 3)])]
    schedule = topologies.Periodic(graphs, weights=weights)
    first, middle, last = (schedule.weights(n).toarray() for n in range(3))
    expected = second(last @ middle @ first) ** (1 / 3)
    assert topologies.contraction(schedule, 3000) == pytest.approx(expected, rel=0, abs=1e-6)


@pytest.mark.parametrize(("schedule", "rounds", "expected"), [
    (MatricesInTurn([np.array([[0.1, 0.9], [0.9, 0.1]])]), 10, 0.8),  # the lowest eigenvalue is the largest in modulus
    (MatricesInTurn([GROWING]), 10, 3),
    # Agreement after finitely many rounds:
    (topologies.Static(topologies.complete(12)), 10, 0),
    (topologies.Periodic(DIGITS), 12, 0),
    (topologies.Static(topologies.path(1)), 10, 0),
    # No agreement:
    (topologies.Static(nx.disjoint_union(topologies.ring(4), topologies.ring(5))), 400, 1),
    (topologies.Static(nx.empty_graph(3)), 4, 1),
    (topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 1)]), weights=topologies.push), 100, 1),
])  # fmt: skip
def test_contraction_in_closed_form(schedule, rounds, expected):
    assert topologies.contraction(schedule, rounds) == pytest.approx(expected, rel=0, abs=1e-12 if expected == 1 else 1e-13)


@pytest.mark.parametrize(("schedule", "message"), [
    (MatricesInTurn([np.eye(2), HALVES * 0.5 + np.eye(2) / 2, np.array([[0.5, 0.5], [0.5, 0.25]])]),
     r"in round 2 row 1 sums to 0\.75 and column 1 to 0\.75"),
    (MatricesInTurn([topologies.push(DIGRAPH).toarray(), topologies.pull(DIGRAPH).toarray()]),
     r"rows of all matrices must sum to one, or the columns of all; in round 1"),
    (topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 1)]), weights=topologies.push),
     r"by round 102\d the mass of agent 0 has vanished.*strongly connected"),
])  # fmt: skip
def test_schedules_without_a_contraction_are_rejected(schedule, message):
    with pytest.raises(ValueError, match=message):
        topologies.contraction(schedule, 2000)


@pytest.mark.slow
def test_contraction_of_random_edges_hardly_depends_on_the_seed():
    schedule = topologies.RandomEdges(topologies.erdos_renyi(12, 0.4, seed=0), 0.5, seed=1)
    found = [topologies.contraction(schedule, 1000, seed=seed) for seed in (0, 0, 1, 2)]
    assert found[0] == found[1]
    assert max(found) - min(found) < 1e-6


# Spectral gaps against closed forms and dense eigenvalues; the agents' own estimate of the gap.


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
