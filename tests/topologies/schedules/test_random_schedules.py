"""Random edges, failing links, matchings and moving agents: definitions, frequencies, independence."""

import math

import networkx as nx
import numpy as np
import pytest
from networks import same

import topologies
from consensus.testing import check_schedule
from topologies.schedules.base import stream


@pytest.mark.parametrize("probability", [0.05, 0.5, 1.0])
@pytest.mark.parametrize(
    "graph",
    [topologies.erdos_renyi(40, 0.2, seed=1), topologies.star(30), topologies.complete(12)],
    ids=["random", "star", "complete"],
)
def test_matrices_are_the_metropolis_matrices_of_their_graphs_to_the_bit(graph, probability):
    schedule = topologies.RandomEdges(graph, probability, seed=7)
    for n in range(20):
        assert same(schedule.weights(schedule.key(n)), topologies.metropolis(schedule.graph(n)))
        assert probability < 1 or same(schedule.weights(schedule.key(n)), topologies.metropolis(graph))


COMPLETE = topologies.complete(12)
MAKERS = {
    "edges": lambda probability: topologies.RandomEdges(COMPLETE, probability, seed=8),
    "links": lambda probability: topologies.LinkFailure(topologies.Static(COMPLETE), 1 - probability, seed=6),
    "messages": lambda probability: topologies.LinkFailure(topologies.Static(COMPLETE), 1 - probability, 6, symmetric=False),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.95])
def test_edges_are_present_with_the_given_frequency_and_independently(name, probability):
    schedule, rounds = MAKERS[name](probability), 2000
    places = np.nonzero(~np.eye(12, dtype=bool)) if name == "messages" else np.triu_indices(12, 1)
    present = np.array([schedule.weights(n).toarray()[places] > 0 for n in range(rounds)])
    # Five standard deviations of a binomial count, for each edge, then for all of them together.
    deviation = math.sqrt(probability * (1 - probability) / rounds)
    assert abs(present.mean(axis=0) - probability).max() < 5 * deviation
    assert abs(present.mean() - probability) < 5 * deviation / math.sqrt(present.shape[1])
    between = np.corrcoef(present.T)[np.triu_indices(present.shape[1], 1)]
    assert abs(between).max() < 6 / math.sqrt(rounds)
    successive = np.mean((present[1:] - probability) * (present[:-1] - probability))
    assert abs(successive) < 5 * probability * (1 - probability) / math.sqrt(present[1:].size)


@pytest.mark.slow
def test_failures_are_independent_of_random_edges_with_the_same_seed():
    graph, rounds = topologies.complete(10), 2000
    network = topologies.LinkFailure(topologies.RandomEdges(graph, 0.5, seed=4), 0.5, seed=4)
    present = np.mean([network.weights(n).nnz - 10 for n in range(rounds)]) / 90
    assert abs(present - 0.25) < 5 * math.sqrt(0.25 * 0.75 / (45 * rounds))


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


MOBILE = [
    topologies.Mobile(30, 0.25, 0.05, seed=2),
    topologies.Mobile(12, 0.1, 0.7, seed=5),
    topologies.Mobile(5, 2.0, 3.5),
    topologies.Mobile(2, 0.5, 0.1),
    topologies.Mobile(1, 0.5, 0.1),
]


@pytest.mark.parametrize("network", MOBILE, ids=repr)
def test_agents_are_adjacent_if_they_are_within_the_radius(network):
    for n in (0, 1, 17, 10_000, 10**9):
        where = network.positions(n)
        distance = np.sqrt(((where[:, None] - where) ** 2).sum(axis=2))
        near = (distance <= network.radius) & ~np.eye(network.agents, dtype=bool)
        graph = network.graph(n)
        assert np.array_equal(nx.to_numpy_array(graph) > 0, near)
        assert np.array_equal(np.array([graph.nodes[k]["pos"] for k in graph]), where)
        matrix = network.weights(network.key(n))
        assert np.array_equal(matrix.toarray(), topologies.metropolis(graph).toarray())
        assert ((where >= 0) & (where <= 1)).all()


def bounce(start, step, rounds):
    """The same walk, one round after another, reflected at the sides."""
    where, step = start.copy(), step.copy()
    for _ in range(rounds):
        where += step
        while ((where < 0) | (where > 1)).any():
            step = np.where((where < 0) | (where > 1), -step, step)
            where = np.where(where < 0, -where, np.where(where > 1, 2 - where, where))
    return where


@pytest.mark.parametrize("network", MOBILE[:3], ids=repr)
def test_agents_walk_on_straight_lines_that_sides_reflect(network):
    start, step = network.positions(0), network._step
    np.testing.assert_allclose(np.hypot(*step.T), network.speed, rtol=1e-14)
    for rounds in (1, 2, 10, 1000):
        np.testing.assert_allclose(network.positions(rounds), bounce(start, step, rounds), rtol=0, atol=1e-10)


@pytest.mark.parametrize("n", [0, 3, 10, 10_000])
def test_agents_are_uniformly_distributed_at_all_times(n):
    agents, cells = 40_000, 4
    where = topologies.Mobile(agents, 0.1, 0.13, seed=1).positions(n)
    counts = np.histogram2d(*where.T, bins=cells, range=[[0, 1], [0, 1]])[0]
    share = 1 / cells**2
    assert abs(counts / agents - share).max() < 5 * math.sqrt(share * (1 - share) / agents)


def test_every_two_agents_meet_and_reach_the_average_for_a_small_radius():
    network, values = topologies.Mobile(8, 0.1, 0.21, seed=3), np.random.default_rng(0).standard_normal(8)
    mean, seen = values.mean(), np.eye(8)
    for n in range(1500):
        matrix = network.weights(network.key(n))
        values, seen = matrix @ values, seen + matrix
    np.testing.assert_allclose(values, mean, rtol=0, atol=1e-13)
    assert (seen > 0).all()
    assert np.array_equal(network.union().toarray(), 1 - np.eye(8))
    assert len(topologies.components(network)) == 1
    assert nx.number_connected_components(network.graph(0)) > 1


def test_a_random_subgraph_of_no_edges_is_static():
    assert topologies.RandomEdges(nx.empty_graph(3), 0.5).static
    assert topologies.RandomEdges(nx.empty_graph(3), 0.5).key(4) == 0
    assert not topologies.RandomEdges(nx.path_graph(3), 0.5).static
