"""Random edges and failing links: exact Metropolis matrices, frequencies, independence."""

import math

import numpy as np
import pytest
from networks import same

import topologies


@pytest.mark.parametrize("probability", [0.05, 0.5, 1.0])
@pytest.mark.parametrize(
    "graph", [topologies.erdos_renyi(40, 0.2, seed=1), topologies.star(30), topologies.complete(12)], ids=repr
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
