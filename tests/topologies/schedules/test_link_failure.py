"""Links that fail: averages that survive, frequencies, both directions together or each by itself."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from failing import ARCS, GRAPH, PUSHED, UNDIRECTED, sums

import topologies


def test_messages_lost_one_way_leave_a_doubly_stochastic_matrix_column_stochastic_only():
    network = topologies.LinkFailure(topologies.Static(GRAPH), 0.3, seed=1, symmetric=False)
    matrices = [network.weights(network.key(n)) for n in range(20)]
    assert all(abs(sums(matrix, 0) - 1).max() <= 4e-16 for matrix in matrices)
    assert all(abs(sums(matrix, 1) - 1).max() > 0.01 for matrix in matrices)


@pytest.mark.slow
@pytest.mark.parametrize("name", UNDIRECTED)
def test_averages_survive_thousands_of_rounds_of_lost_messages(name):
    network = topologies.LinkFailure(UNDIRECTED[name], 0.3, seed=2)
    values = np.random.default_rng(0).standard_normal((12, 3))
    mean = values.mean(axis=0)
    for n in range(3000):
        values = network.weights(network.key(n)) @ values
    np.testing.assert_allclose(values.mean(axis=0), mean, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["static", "random", "matchings", "failures"])
def test_agents_agree_on_the_average_in_spite_of_lost_messages(name):
    network = topologies.LinkFailure(UNDIRECTED[name], 0.5, seed=2)
    values = np.random.default_rng(0).standard_normal(12)
    mean = values.mean()
    for n in range(1000):
        values = network.weights(network.key(n)) @ values
    np.testing.assert_allclose(values, mean, rtol=0, atol=1e-13)


def test_push_sum_reaches_the_average_though_messages_are_lost_one_way():
    network = topologies.LinkFailure(topologies.Static(ARCS, weights=topologies.push), 0.4, seed=2, symmetric=False)
    values, mass = np.random.default_rng(0).standard_normal(5), np.ones(5)
    mean = values.mean()
    for n in range(500):
        matrix = network.weights(network.key(n))
        values, mass = matrix @ values, matrix @ mass
    np.testing.assert_allclose(values / mass, mean, rtol=0, atol=1e-13)
    assert mass.sum() == pytest.approx(5, abs=1e-13)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("probability", [0.05, 0.5, 0.9])
def test_links_fail_with_the_given_frequency_and_independently(probability, symmetric):
    agents, rounds = 10, 2000
    inner = topologies.Static(topologies.complete(agents))
    network = topologies.LinkFailure(inner, probability, seed=6, symmetric=symmetric)
    apart = np.triu_indices(agents, 1) if symmetric else np.nonzero(~np.eye(agents, dtype=bool))
    failed = np.array([network.weights(n).toarray()[apart] == 0 for n in range(rounds)])
    deviation = math.sqrt(probability * (1 - probability) / rounds)
    # Five standard deviations of a binomial count, for each link, then for all of them together.
    assert abs(failed.mean(axis=0) - probability).max() < 5 * deviation
    assert abs(failed.mean() - probability) < 5 * deviation / math.sqrt(failed.shape[1])
    between = np.corrcoef(failed.T)[np.triu_indices(failed.shape[1], 1)]
    assert abs(between).max() < 6 / math.sqrt(rounds)
    successive = np.mean((failed[1:] - probability) * (failed[:-1] - probability))
    assert abs(successive) < 5 * probability * (1 - probability) / math.sqrt(failed[1:].size)


@pytest.mark.slow
def test_failures_are_independent_of_random_edges_under_the_same_seed():
    graph, rounds = topologies.complete(10), 2000
    inner = topologies.RandomEdges(graph, 0.5, seed=4)
    network = topologies.LinkFailure(inner, 0.5, seed=4)
    there = np.mean([network.weights(n).nnz - 10 for n in range(rounds)]) / 90
    assert abs(there - 0.25) < 5 * math.sqrt(0.25 * 0.75 / (45 * rounds))


def test_two_schedules_over_one_graph_lose_the_same_messages_under_one_seed():
    for symmetric in (True, False):
        rows, columns = (
            topologies.LinkFailure(topologies.Static(ARCS, weights=rule), 0.4, 7, symmetric)
            for rule in (topologies.pull, topologies.push)
        )
        for n in range(20):
            one, other = rows.weights(rows.key(n)).toarray(), columns.weights(columns.key(n)).toarray()
            assert np.array_equal(one != 0, other != 0)


def test_both_directions_fail_together_or_each_by_itself():
    together = topologies.LinkFailure(topologies.Static(ARCS, weights=topologies.push), 0.5, seed=1)
    apart = topologies.LinkFailure(topologies.Static(ARCS, weights=topologies.push), 0.5, seed=1, symmetric=False)
    ways = {
        network: {(network.graph(n).has_edge(0, 2), network.graph(n).has_edge(2, 0)) for n in range(40)}
        for network in (together, apart)
    }
    assert ways[together] == {(True, True), (False, False)}
    assert ways[apart] == set(itertools.product([True, False], repeat=2))


def test_an_edge_of_the_graph_that_no_weight_uses_does_not_confuse_graphs():
    def every_other(graph):
        kept = nx.empty_graph(len(graph))
        kept.add_edges_from((i, j) for i, j in graph.edges if (i + j) % 4 == 1)
        return topologies.metropolis(kept)

    network = topologies.LinkFailure(topologies.Static(topologies.ring(8), weights=every_other), 0.5, seed=1)
    for n in range(20):
        found = network.weights(network.key(n)).toarray()
        np.fill_diagonal(found, 0)
        assert {(i, j) for i, j in np.argwhere(np.triu(found)).tolist()} <= set(network.graph(n).edges)


def test_without_failures_matrices_and_keys_are_the_very_same():
    for inner in (*UNDIRECTED.values(), *PUSHED.values()):
        network = topologies.LinkFailure(inner, 0.0)
        for n in range(5):
            assert network.key(n) == inner.key(n)
            assert (network.weights(network.key(n)) != inner.weights(inner.key(n))).nnz == 0


RING = topologies.Static(topologies.ring(6))


@pytest.mark.parametrize("probability", [1, 1.0, -0.1, math.nan, "half", None])
def test_probabilities_out_of_range_are_refused(probability):
    with pytest.raises(ValueError, match=rf"probability must be a number in \[0, 1\), got {probability!r}"):
        topologies.LinkFailure(RING, probability)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 0.5}, "seed must be an integer"),
        ({"symmetric": "no"}, "symmetric must be True or False, got 'no'"),
        ({"preserve": "sums"}, "preserve must be 'columns', 'rows' or None, got 'sums'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        topologies.LinkFailure(RING, 0.5, **settings)
