"""Mixing times against powers of matrices; measured contraction against eigenvalues of (products of) matrices."""

import math

import networkx as nx
import numpy as np
import pytest

import topologies
from tests.helpers.matrices_in_turn import MatricesInTurn

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
