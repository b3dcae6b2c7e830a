"""Mixing times against powers of matrices; measured contraction against eigenvalues of (products of) matrices."""

import math
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies

DIGRAPH = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2), (2, 3), (3, 0), (1, 3)])


class Turns(NamedTuple):
    """A schedule of given matrices in turn."""

    matrices: list

    @property
    def agents(self):
        return np.asarray(self.matrices[0]).shape[0]

    def key(self, round):
        return round % len(self.matrices)

    def weights(self, key):
        return sparse.csr_array(self.matrices[key])


def second(matrix):
    """Modulus of the second largest eigenvalue of a dense row or column stochastic matrix."""
    return np.sort(abs(np.linalg.eigvals(matrix)))[-2]


@pytest.mark.parametrize("accuracy", [0.5, 1e-2, 1e-6])
@pytest.mark.parametrize(
    "graph", [topologies.ring(8), topologies.grid(3, 4), topologies.star(7), topologies.erdos_renyi(12, 0.3, seed=1)]
)
def test_mixing_time_is_the_first_power_that_is_as_near_to_averaging(graph, accuracy):
    matrix = topologies.metropolis(graph)
    rounds = topologies.mixing_time(matrix, accuracy)
    deviation = matrix.toarray() - 1 / len(graph)

    def left(power):
        return np.linalg.norm(np.linalg.matrix_power(deviation, power), 2)

    assert left(rounds) <= accuracy < left(rounds - 1)


def test_a_power_that_meets_the_accuracy_exactly_counts():
    # The modulus is 1/10 exactly, so two rounds leave 1/100.
    matrix = np.array([[0.55, 0.45], [0.45, 0.55]])
    assert topologies.mixing_time(matrix, 0.01) == 2
    assert topologies.mixing_time(matrix, 0.001) == 3


def test_agreement_at_once_and_never():
    assert topologies.mixing_time(topologies.metropolis(topologies.complete(9))) == 1
    assert topologies.mixing_time(topologies.metropolis(topologies.path(1))) == 1
    assert topologies.mixing_time(topologies.metropolis(nx.empty_graph(3))) == math.inf
    assert topologies.mixing_time(topologies.adjacency(topologies.ring(4)) / 2) == math.inf
    assert topologies.mixing_time(np.array([[2.0, -1.0], [-1.0, 2.0]])) == math.inf


@pytest.mark.parametrize("accuracy", [0, 1, -1, 2, math.nan, "0.1", None])
def test_accuracy_out_of_range_is_refused(accuracy):
    with pytest.raises(ValueError, match=rf"accuracy must be a number in \(0, 1\), got {accuracy!r}"):
        topologies.mixing_time(np.eye(2), accuracy)


@pytest.mark.parametrize(
    "graph",
    [
        topologies.ring(10),
        topologies.path(6),
        topologies.star(9),
        topologies.hypercube(3),
        topologies.erdos_renyi(20, 0.3, seed=4),
        topologies.barabasi_albert(30, 2, seed=0),
    ],
)
@pytest.mark.parametrize("weights", [topologies.metropolis, topologies.sinkhorn, topologies.lazy(topologies.laplacian)])
def test_contraction_of_a_symmetric_matrix_is_its_second_modulus(graph, weights):
    schedule = topologies.Static(graph, weights=weights)
    expected = 1 - topologies.spectral_gap(schedule.weights(0))
    assert topologies.contraction(schedule, 2000) == pytest.approx(expected, rel=0, abs=1e-6)


def test_contraction_of_a_matrix_whose_lowest_eigenvalue_is_the_largest_in_modulus():
    matrix = np.array([[0.1, 0.9], [0.9, 0.1]])
    assert topologies.contraction(Turns([matrix]), 10) == pytest.approx(0.8, rel=0, abs=1e-14)


@pytest.mark.parametrize("weights", [topologies.push, topologies.pull, topologies.sinkhorn])
def test_contraction_of_directed_weights_is_their_second_modulus(weights):
    schedule = topologies.Static(DIGRAPH, weights=weights)
    expected = second(schedule.weights(0).toarray())
    # Complex eigenvalues: the factors of single rounds go round and only their mean over many settles.
    assert topologies.contraction(schedule, 5000) == pytest.approx(expected, rel=0, abs=4e-4)


@pytest.mark.parametrize("weights", [topologies.metropolis, topologies.push])
def test_contraction_of_a_periodic_schedule_is_that_of_the_product_over_a_period(weights):
    graphs = [topologies.path(6), topologies.star(6), nx.Graph([(0, 5), (1, 4), (2, 3)])]
    schedule = topologies.Periodic(graphs, weights=weights)
    first, middle, last = (schedule.weights(n).toarray() for n in range(3))
    expected = second(last @ middle @ first) ** (1 / 3)
    assert topologies.contraction(schedule, 3000) == pytest.approx(expected, rel=0, abs=1e-6)


def test_disagreement_of_push_sum_shrinks_as_measured():
    schedule = topologies.Static(topologies.barabasi_albert(15, 2, seed=1), weights=topologies.push)
    factor = topologies.contraction(schedule, 2000)
    values, mass = np.random.default_rng(3).standard_normal(15), np.ones(15)
    mean, sizes = values.mean(), []
    for n in range(40):
        values, mass = schedule.weights(0) @ values, schedule.weights(0) @ mass
        if n >= 19:
            sizes.append(np.linalg.norm(values / mass - mean))
    assert (sizes[-1] / sizes[0]) ** (1 / 20) == pytest.approx(factor, rel=1e-3)


def test_agreement_after_finitely_many_rounds_is_contraction_by_zero():
    assert topologies.contraction(topologies.Static(topologies.complete(12)), 10) == 0
    cube = topologies.hypercube(3)
    digits = [nx.Graph([edge for edge in cube.edges if edge[0] ^ edge[1] == 1 << digit]) for digit in range(3)]
    assert topologies.contraction(topologies.Periodic(digits), 12) == 0
    assert topologies.contraction(topologies.Static(topologies.path(1)), 10) == 0


def test_agents_that_never_agree_contract_by_one():
    apart = nx.disjoint_union(topologies.ring(4), topologies.ring(5))
    assert topologies.contraction(topologies.Static(apart), 400) == pytest.approx(1, rel=0, abs=1e-12)
    assert topologies.contraction(topologies.Static(nx.empty_graph(3)), 4) == pytest.approx(1, rel=0, abs=1e-15)


def test_disagreement_that_grows_contracts_by_more_than_one():
    assert topologies.contraction(Turns([[[2.0, -1.0], [-1.0, 2.0]]]), 10) == pytest.approx(3, rel=1e-14)


@pytest.mark.slow
def test_contraction_depends_on_the_seed_alone_and_little():
    schedule = topologies.RandomEdges(topologies.erdos_renyi(12, 0.4, seed=0), 0.5, seed=1)
    found = [topologies.contraction(schedule, 1000, seed=seed) for seed in range(3)]
    assert found[0] == topologies.contraction(schedule, 1000)
    assert max(found) - min(found) < 1e-6
    # On the mean, failing edges are slower than the graph with all of them.
    assert found[0] > topologies.contraction(topologies.Static(topologies.erdos_renyi(12, 0.4, seed=0)), 1000)


def test_matrices_that_are_stochastic_neither_way_are_refused_by_round():
    halves, broken = np.full((2, 2), 0.5), np.array([[0.5, 0.5], [0.5, 0.25]])
    with pytest.raises(ValueError, match=r"in round 2 row 1 sums to 0\.75 and column 1 to 0\.75"):
        topologies.contraction(Turns([np.eye(2), halves * 0.5 + np.eye(2) / 2, broken]), 10)
    mixed = Turns([topologies.push(DIGRAPH).toarray(), topologies.pull(DIGRAPH).toarray()])
    with pytest.raises(ValueError, match=r"rows of all matrices must sum to one, or the columns of all; in round 1"):
        topologies.contraction(mixed, 10)


def test_mass_that_drains_away_is_refused_by_agent():
    schedule = topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 1)]), weights=topologies.push)
    with pytest.raises(ValueError, match=r"by round 102\d the mass of agent 0 has vanished.*strongly connected"):
        topologies.contraction(schedule, 2000)
    assert topologies.contraction(schedule, 100) == pytest.approx(1, rel=0, abs=1e-12)


@pytest.mark.parametrize(("arguments", "message"), [((1,), "rounds must be at least 2"), ((9, -1), "seed must be at least 0")])
def test_bad_counts_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        topologies.contraction(topologies.Static(topologies.ring(4)), *arguments)
