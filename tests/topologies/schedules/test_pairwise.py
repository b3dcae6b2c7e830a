"""Matchings, which average pairs, and one-peer exponential graphs, which average exactly."""

import math

import networkx as nx
import numpy as np
import pytest

import topologies
from consensus.testing import check_schedule
from topologies.schedules.base import stream

GRAPHS = {
    "star": topologies.star(9),
    "grid": topologies.grid(4, 5),
    "random": topologies.erdos_renyi(30, 0.2, seed=1),
    "disconnected": nx.disjoint_union(topologies.ring(5), nx.empty_graph(3)),
}


def averages_pairs(matrix):
    """Whether a matrix is a symmetric projection, and each row has two halves or a one."""
    rows = [sorted(row[row != 0]) for row in matrix]
    symmetric, projection = np.array_equal(matrix, matrix.T), np.array_equal(matrix @ matrix, matrix)
    return symmetric and projection and all(row in ([1.0], [0.5, 0.5]) for row in rows)


@pytest.mark.parametrize("agents", [1, 2, 3, 8, 9])
def test_matchings_of_all_agents_leave_at_most_one_unmatched(agents):
    network = topologies.Matchings(agents, seed=3)
    for n in range(30):
        matrix = network.weights(network.key(n)).toarray()
        assert averages_pairs(matrix)
        assert np.count_nonzero(matrix.diagonal() == 1) == agents % 2
        assert network.graph(n).number_of_edges() == agents // 2


@pytest.mark.parametrize("name", GRAPHS)
def test_matchings_of_a_graph_are_maximal_and_take_free_edges_in_a_random_order(name):
    graph, seed = GRAPHS[name], 5
    edges = np.argwhere(np.triu(nx.to_numpy_array(graph)))
    network = topologies.Matchings(len(graph), seed=seed, graph=graph)
    for n in range(30):
        taken, free = set(), set(graph)
        for i, j in edges[stream(b"pair", seed, n).permutation(len(edges))].tolist():
            if {i, j} <= free:
                taken.add((i, j))
                free -= {i, j}
        assert set(network.graph(n).edges) == taken
        assert nx.is_maximal_matching(graph, taken)
        assert averages_pairs(network.weights(network.key(n)).toarray())
    components = [sorted(part) for part in nx.connected_components(graph)]
    assert [group.tolist() for group in topologies.components(network)] == components


@pytest.mark.parametrize(
    ("network", "agents", "probability"),
    # Each of 9 agents meets each of 8 others in one of 9 rounds, because it is unmatched in one of 9.
    [(topologies.Matchings(9, seed=4), 9, 1 / 9), (topologies.Matchings(6, seed=4, graph=topologies.star(6)), 2, 1 / 5)],
)
def test_all_edges_are_matched_equally_often(network, agents, probability):
    rounds, size = 3000, network.agents
    places = np.triu_indices(size, 1) if agents == 9 else (np.zeros(size - 1, int), np.arange(1, size))
    matched = np.array([network.weights(n).toarray()[places] > 0 for n in range(rounds)])
    assert (matched.sum(axis=1) == agents // 2).all()
    assert abs(matched.mean(axis=0) - probability).max() < 5 * math.sqrt(probability * (1 - probability) / rounds)


def test_every_two_agents_meet_in_matchings_without_a_graph():
    network = topologies.Matchings(12)
    assert len(topologies.components(network)) == 1
    assert np.array_equal(network.union().toarray(), 1 - np.eye(12))


@pytest.mark.parametrize("agents", [2, 4, 8, 64, 1024])
def test_one_peer_exponential_graphs_of_powers_of_two_average_exactly(agents):
    network, rounds = topologies.OnePeerExponential(agents), int(math.log2(agents))
    # Integers and halves are exact in floating point.
    values = np.random.default_rng(0).integers(-1000, 1000, agents).astype(float)
    for first in (0, 1, rounds):
        mixed = values
        for n in range(first, first + rounds):
            mixed = network.weights(network.key(n)) @ mixed
        assert np.array_equal(mixed, np.full(agents, values.mean()))


@pytest.mark.parametrize("agents", [1, 2, 3, 5, 6, 7, 8, 12, 16, 40])
def test_one_peer_exponential_matrices_follow_the_definition(agents):
    network, turns = topologies.OnePeerExponential(agents), max(1, math.ceil(math.log2(agents)))
    for n in range(2 * turns + 1):
        expected = np.zeros((agents, agents))
        for i in range(agents):
            expected[i, i] += 0.5
            expected[i, (i + 2 ** (n % turns)) % agents] += 0.5
        assert np.array_equal(network.weights(network.key(n)).toarray(), expected)
        assert network.graph(n).is_directed()
    check_schedule(network, mixing="doubly stochastic")
    assert len({network.key(n) for n in range(50)}) == turns
    assert len(topologies.components(network)) == 1
