"""Random edges: exact Metropolis matrices, random access in seed and round, frequencies, refusals."""

import math

import networkx as nx
import numpy as np
import pytest
from networks import same

import topologies


def test_random_edges_matrices_are_the_metropolis_matrices_of_their_graphs_to_the_bit():
    for graph in (topologies.erdos_renyi(40, 0.2, seed=1), topologies.star(30), topologies.complete(12)):
        for probability in (0.05, 0.5, 1.0):
            schedule = topologies.RandomEdges(graph, probability, seed=7)
            for n in range(20):
                assert same(schedule.weights(schedule.key(n)), topologies.metropolis(schedule.graph(n)))


def test_random_edges_with_probability_one_has_every_edge():
    graph = topologies.grid(4, 4)
    schedule = topologies.RandomEdges(graph, 1.0, seed=5)
    assert all(same(schedule.weights(schedule.key(n)), topologies.metropolis(graph)) for n in range(5))


def test_random_edges_in_any_order_are_those_in_sequence():
    graph = topologies.erdos_renyi(30, 0.3, seed=2)
    one, other = (topologies.RandomEdges(graph, 0.5, seed=11) for _ in range(2))
    sequence = [one.weights(one.key(n)) for n in range(30)]
    for n in np.random.default_rng(0).permutation(30):
        assert same(other.weights(other.key(n)), sequence[n])


def test_random_edges_differ_by_round_and_by_seed():
    graph = topologies.erdos_renyi(30, 0.3, seed=2)
    drawn = [
        frozenset(topologies.RandomEdges(graph, 0.5, seed=seed).graph(n).edges)
        for seed in (0, 1, 2, 2**32, 2**32 + 1)
        for n in (0, 1, 2, 3)
    ]
    assert len(set(drawn)) == len(drawn)


def test_random_edges_are_not_the_plain_stream_of_the_seed():
    graph = topologies.complete(20)
    edges = np.array(topologies.RandomEdges(graph, 0.5, seed=4).graph(0).edges)
    present = {tuple(edge) for edge in edges.tolist()}
    for plain in (np.random.default_rng(4), np.random.default_rng([4, 0])):
        kept = np.array(list(graph.edges))[plain.random(190) < 0.5]
        assert present != {tuple(edge) for edge in kept.tolist()}


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_edges_appear_with_the_given_frequency_and_independently(probability):
    graph, rounds = topologies.complete(15), 2000
    schedule = topologies.RandomEdges(graph, probability, seed=8)
    there = np.array([schedule.weights(n).toarray()[np.triu_indices(15, 1)] > 0 for n in range(rounds)])
    # Five standard deviations of a binomial count, for each of 105 edges, then for all of them together.
    deviation = math.sqrt(probability * (1 - probability) / rounds)
    assert abs(there.mean(axis=0) - probability).max() < 5 * deviation
    assert abs(there.mean() - probability) < 5 * deviation / math.sqrt(there.shape[1])
    pairs = np.corrcoef(there.T)[np.triu_indices(there.shape[1], 1)]
    assert abs(pairs).max() < 6 / math.sqrt(rounds)
    successive = np.mean((there[1:] - probability) * (there[:-1] - probability))
    assert abs(successive) < 5 * probability * (1 - probability) / math.sqrt(there[1:].size)


@pytest.mark.parametrize("probability", [0, 0.0, -0.1, 1.5, math.nan, "half", None])
def test_random_edges_refuses_probabilities_out_of_range(probability):
    with pytest.raises(ValueError, match=rf"probability must be a number in \(0, 1\], got {probability!r}"):
        topologies.RandomEdges(topologies.ring(4), probability)


@pytest.mark.parametrize(("seed", "message"), [(-1, "seed must be at least 0, got -1"), (0.5, "seed must be an integer")])
def test_random_edges_refuses_bad_seeds(seed, message):
    with pytest.raises(ValueError, match=message):
        topologies.RandomEdges(topologies.ring(4), 0.5, seed=seed)


def test_random_edges_refuses_directed_graphs():
    with pytest.raises(ValueError, match="Metropolis weights need an undirected graph"):
        topologies.RandomEdges(nx.DiGraph([(0, 1)]), 0.5)
