"""Pairs: matchings that average pairs, frequencies, exact averaging by one-peer exponential graphs."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest

import topologies
from topologies.schedules.base import stream

GRAPHS = {
    "star": topologies.star(9),
    "grid": topologies.grid(4, 5),
    "random": topologies.erdos_renyi(30, 0.2, seed=1),
    "parts": nx.disjoint_union(topologies.ring(5), nx.empty_graph(3)),
}


def is_average_of_pairs(matrix):
    """Whether a matrix is symmetric, a projection, and all of its rows are halves of two agents or one of one."""
    rows = [sorted(row[row != 0]) for row in matrix]
    return (
        np.array_equal(matrix, matrix.T)
        and np.array_equal(matrix @ matrix, matrix)
        and all(row in ([1.0], [0.5, 0.5]) for row in rows)
    )


@pytest.mark.parametrize("agents", [1, 2, 3, 8, 9])
def test_matchings_of_all_agents_leave_at_most_one_alone(agents):
    network = topologies.Matchings(agents, seed=3)
    for n in range(30):
        matrix = network.weights(network.key(n)).toarray()
        assert is_average_of_pairs(matrix)
        assert np.array_equal(matrix.sum(axis=0), np.ones(agents))
        assert np.count_nonzero(matrix.diagonal() == 1) == agents % 2
        assert network.graph(n).number_of_edges() == agents // 2


@pytest.mark.parametrize("name", GRAPHS)
def test_matchings_of_a_graph_are_maximal(name):
    graph = GRAPHS[name]
    network = topologies.Matchings(len(graph), seed=3, graph=graph)
    for n in range(50):
        matched = network.graph(n)
        assert nx.is_maximal_matching(graph, set(matched.edges))
        assert is_average_of_pairs(network.weights(network.key(n)).toarray())


@pytest.mark.parametrize("name", GRAPHS)
def test_matchings_of_a_graph_take_edges_in_a_random_order_each_that_is_still_free(name):
    graph, seed = GRAPHS[name], 5
    edges = np.argwhere(np.triu(nx.to_numpy_array(graph)))
    network = topologies.Matchings(len(graph), seed=seed, graph=graph)
    for n in range(20):
        taken, free = set(), set(graph)
        for i, j in edges[stream(b"pair", seed, n).permutation(len(edges))].tolist():
            if {i, j} <= free:
                taken.add((i, j))
                free -= {i, j}
        assert set(network.graph(n).edges) == taken


def test_all_pairs_of_all_agents_meet_equally_often():
    agents, rounds = 9, 3000
    network = topologies.Matchings(agents, seed=4)
    there = np.mean([network.weights(n).toarray()[np.triu_indices(agents, 1)] > 0 for n in range(rounds)], axis=0)
    # Each of 9 agents meets each of 8 others in one of 9 rounds, as it is left alone in one of 9.
    assert abs(there - 1 / 9).max() < 5 * math.sqrt(1 / 9 * 8 / 9 / rounds)


def test_edges_of_a_star_are_matched_equally_often_and_one_in_each_round():
    network, rounds = topologies.Matchings(6, seed=4, graph=topologies.star(6)), 3000
    there = np.array([network.weights(n).toarray()[0, 1:] > 0 for n in range(rounds)])
    assert (there.sum(axis=1) == 1).all()
    assert abs(there.mean(axis=0) - 0.2).max() < 5 * math.sqrt(0.2 * 0.8 / rounds)


def test_matchings_differ_by_round_and_seed_and_pairs_bring_all_agents_to_the_average():
    drawn = [frozenset(topologies.Matchings(20, seed=seed).graph(n).edges) for seed in (0, 1, 2**32) for n in (0, 1, 2, 2**32)]
    assert len(set(drawn)) == len(drawn)
    values = np.random.default_rng(0).standard_normal(20)
    network, start = topologies.Matchings(20, seed=1), values.mean()
    for n in range(200):
        values = network.weights(network.key(n)) @ values
    np.testing.assert_allclose(values, start, rtol=0, atol=1e-13)


def test_rounds_that_cannot_differ_share_a_key():
    assert {topologies.Matchings(2).key(n) for n in range(5)} == {0}
    one_edge = nx.empty_graph(3)
    one_edge.add_edge(0, 2)
    assert {topologies.Matchings(3, graph=one_edge).key(n) for n in range(5)} == {0}
    assert {topologies.Matchings(3, graph=topologies.path(3)).key(n) for n in range(5)} == set(range(5))


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


@pytest.mark.parametrize("agents", [1, 2, 3, 5, 6, 7, 8, 12])
def test_one_peer_exponential_matrices_follow_the_definition(agents):
    network, turns = topologies.OnePeerExponential(agents), max(1, math.ceil(math.log2(agents)))
    for n in range(2 * turns + 1):
        expected = np.zeros((agents, agents))
        for i in range(agents):
            expected[i, i] += 0.5
            expected[i, (i + 2 ** (n % turns)) % agents] += 0.5
        matrix = network.weights(network.key(n)).toarray()
        assert np.array_equal(matrix, expected)
        assert np.array_equal(matrix.sum(axis=0), np.ones(agents))
        assert network.graph(n).is_directed()
    assert len({network.key(n) for n in range(50)}) == turns
    assert len(topologies.components(network)) == 1


def test_one_peer_exponential_graphs_of_other_sizes_agree_in_the_limit():
    network, values = topologies.OnePeerExponential(6), np.random.default_rng(0).standard_normal(6)
    mean = values.mean()
    for n in range(200):
        values = network.weights(network.key(n)) @ values
    np.testing.assert_allclose(values, mean, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", GRAPHS)
def test_matchings_are_jointly_connected_when_the_graph_is(name):
    graph = GRAPHS[name]
    network = topologies.Matchings(len(graph), graph=graph)
    expected = [sorted(part) for part in nx.connected_components(graph)]
    assert [group.tolist() for group in topologies.components(network)] == expected
    assert len(topologies.components(topologies.Matchings(12))) == 1
    assert np.array_equal(topologies.Matchings(12).union().toarray(), 1 - np.eye(12))


def test_equality_and_what_is_shown():
    ring = topologies.ring(6)
    made = [
        topologies.Matchings(6),
        topologies.Matchings(6, seed=1),
        topologies.Matchings(7),
        topologies.Matchings(6, graph=ring),
        topologies.Matchings(6, graph=topologies.path(6)),
        topologies.OnePeerExponential(6),
        topologies.OnePeerExponential(7),
    ]
    assert all(one != other for one, other in itertools.combinations(made, 2))
    assert topologies.Matchings(6, graph=ring) == topologies.Matchings(6, graph=nx.to_numpy_array(ring))
    assert repr(made[1]) == "Matchings(agents=6, seed=1)"
    assert repr(made[3]) == "Matchings(agents=6, edges=6, seed=0)"
    assert repr(made[5]) == "OnePeerExponential(agents=6)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: topologies.Matchings(0), "agents must be at least 1, got 0"),
        (lambda: topologies.Matchings(4.0), "agents must be an integer of at least 1, got 4.0"),
        (lambda: topologies.Matchings(4, seed=-1), "seed must be at least 0, got -1"),
        (lambda: topologies.Matchings(4, graph=topologies.ring(5)), "graph has 5 agents, but agents=4"),
        (lambda: topologies.Matchings(2, graph=nx.DiGraph([(0, 1)])), "graph must be undirected"),
        (lambda: topologies.Matchings(2, graph=np.array([[0, 1], [0, 0]])), "graph must be undirected"),
        (lambda: topologies.OnePeerExponential(0), "agents must be at least 1, got 0"),
        (lambda: topologies.OnePeerExponential("6"), "agents must be an integer of at least 1, got '6'"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
