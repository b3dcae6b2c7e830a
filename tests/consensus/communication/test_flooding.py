"""How news crosses a network, and what the numbers that carry it cost."""

import math

import networkx as nx
import numpy as np
import pytest

import topologies
from consensus.engines.stacked import StackedNetwork

PATH = topologies.Static(topologies.path(3))
ARCS = topologies.Static(nx.DiGraph([(k, (k + 1) % 5) for k in range(5)]), weights=topologies.push)
AWAY = topologies.AgentFailure(topologies.Static(topologies.complete(10)), [(agent, 0, 1) for agent in range(1, 10)])


def half(edge):
    graph = nx.empty_graph(3)
    graph.add_edge(*edge)
    return graph


# The edge between 0 and 1 is up in even rounds, that between 1 and 2 in odd ones.
TURNS = topologies.Periodic([half((0, 1)), half((1, 2))])


@pytest.mark.parametrize(
    ("schedule", "round", "exchanges"), [(PATH, 0, 2), (ARCS, 0, 4), (AWAY, 0, 2), (AWAY, 1, 1), (TURNS, 0, 3), (TURNS, 1, 3)]
)
def test_news_crosses_the_graphs_of_the_rounds_as_they_are(schedule, round, exchanges):
    network = StackedNetwork(schedule, np.float64)
    assert network.flooding.diameter(round) == exchanges
    assert network.floats == 0


def test_numbers_beside_an_exchange_are_counted():
    network = StackedNetwork(AWAY, np.float32)
    network.mix(0, np.ones((10, 2), np.float32), beside=5)
    assert network.floats == 0
    network.mix(1, np.ones((10, 2), np.float32), beside=5)
    assert network.messages == 90
    assert network.counts["bytes"] == 90 * (2 + 5) * 4


def test_words_of_a_bit_for_each_agent():
    """64 agents fit into a double, 32 into a single."""
    for dtype, bits in ((np.float64, 64), (np.float32, 32)):
        for agents in (1, 2, bits, bits + 1, 2 * bits, 2 * bits + 1):
            network = StackedNetwork(topologies.Static(topologies.path(agents)), dtype)
            assert network.flooding.words == math.ceil(agents / bits)


def test_a_least_value_and_what_goes_beside_it_are_counted():
    network = StackedNetwork(PATH, np.float64)
    assert network.flooding.minimum(0, 3, np.array([3.0, 1.0, 2.0]), beside=4) == 1.0
    assert (network.exchanges, network.messages, network.floats, network.bytes) == (3, 3 * 4, 5 * 3 * 4, 8 * 5 * 3 * 4)
    assert network.traffic.tolist() == [8 * 5 * 3 * moved for moved in (2, 4, 2)]


def test_all_say_yes_only_if_everyone_does():
    network = StackedNetwork(PATH, np.float32)
    assert network.flooding.all(np.array([True, True, True]))
    assert not network.flooding.all(np.array([True, False, True]))
    assert network.exchanges == network.bytes == 0  # the caller counts it
