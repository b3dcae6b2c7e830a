"""What a flood takes, counted by hand: every row, with its owner's name, over every edge that really carries it."""

import math

import networkx as nx
import numpy as np
import pytest

import topologies
from consensus.engines.stacked import StackedNetwork

PATH = topologies.Static(topologies.path(3))
ARCS = nx.DiGraph([(k, (k + 1) % 5) for k in range(5)])
AWAY = topologies.AgentFailure(topologies.Static(topologies.complete(10)), [(agent, 0, 1) for agent in range(1, 10)])


def half(edge):
    graph = nx.empty_graph(3)
    graph.add_edge(*edge)
    return graph


# The edge between 0 and 1 is up in even rounds, that between 1 and 2 in odd ones.
TURNS = topologies.Periodic([half((0, 1)), half((1, 2))])
CASES = {
    # Each of three rows goes over two edges, one way.
    "path": (PATH, 0, 2, 3 * 2),
    # The centre's row goes to five leaves; a leaf's to the centre and from there to four.
    "star": (topologies.Static(topologies.star(6)), 0, 2, 5 + 5 * (1 + 4)),
    # Everyone sends everyone its row in the first exchange; in the second nobody knows that the others have all, but each
    # row came from its owner alone, so it is sent on to the two others of four agents, by three.
    "complete": (topologies.Static(topologies.complete(4)), 0, 1, 4 * 3),
    "complete, on": (topologies.Static(topologies.complete(4)), 0, 2, 4 * 3 + 4 * 3 * 2),
    # Each row goes four steps around; the last agent knows better than to send it home.
    "directed ring": (topologies.Static(ARCS, weights=topologies.push), 0, 4, 5 * 4),
    "directed ring, on": (topologies.Static(ARCS, weights=topologies.push), 0, 9, 5 * 4),
    # On a ring of four, what is opposite comes from both sides at once, and neither sends it back to where it came from.
    "ring": (topologies.Static(topologies.ring(4)), 0, 5, 4 * 4),
    # Nothing is sent in round 0, everything in round 1.
    "nine of ten away": (AWAY, 0, 2, 10 * 9),
    "nine of ten away, later": (AWAY, 1, 1, 10 * 9),
    # First rows 0 and 1 change places; then 1 has two for 2, which has its own for 1; then 1 has one more for 0.
    "turns": (TURNS, 0, 3, 2 + 3 + 1),
    "turns, on": (TURNS, 0, 20, 2 + 3 + 1),
    "one agent": (topologies.Static(topologies.star(1)), 0, 0, 0),
}


@pytest.mark.parametrize("width", [0, 3])
@pytest.mark.parametrize("name", CASES)
def test_a_flood_by_hand(name, width):
    schedule, round, exchanges, carried = CASES[name]
    network = StackedNetwork(schedule, np.float64)
    rows = np.arange(schedule.agents * width, dtype=float).reshape(schedule.agents, width)
    np.testing.assert_array_equal(network.flood(round, exchanges, rows), rows)
    assert network.floats == carried * (1 + width)
    assert network.exchanges == network.messages == 0  # it rides along


def test_a_flood_over_lost_messages_follows_every_row():
    """Against a simulation with sets, an agent and a row at a time."""
    schedule = topologies.LinkFailure(topologies.Static(topologies.erdos_renyi(9, 0.4, seed=1)), 0.5, seed=3, symmetric=False)
    exchanges = StackedNetwork(schedule, np.float64).crossing(5)
    has, told, carried = [{agent} for agent in range(9)], set(), 0
    for n in range(5, 5 + exchanges + 4):
        news = []
        for j, i in schedule.graph(n).edges:
            for row in has[j] - {i}:
                if (j, i, row) not in told and (i, j, row) not in told:
                    news.append((j, i, row))
        carried += len(news)
        for j, i, row in news:
            told.add((j, i, row))
            has[i] = has[i] | {row}
    network = StackedNetwork(schedule, np.float64)
    network.flood(5, exchanges + 4, np.zeros((9, 0)))
    assert network.floats == carried


@pytest.mark.parametrize(("schedule", "exchanges"), [(PATH, 1), (AWAY, 1), (TURNS, 2)])
def test_a_flood_that_does_not_get_there_is_refused(schedule, exchanges):
    network = StackedNetwork(schedule, np.float64)
    with pytest.raises(ValueError, match=f"{exchanges} exchanges do not bring every agent's row to every other"):
        network.flood(0, exchanges, np.zeros((schedule.agents, 1)))


@pytest.mark.parametrize(
    ("schedule", "round", "exchanges"), [(PATH, 0, 2), (AWAY, 0, 2), (AWAY, 1, 1), (TURNS, 0, 3), (TURNS, 1, 3)]
)
def test_news_crosses_the_graphs_of_the_rounds_as_they_are(schedule, round, exchanges):
    network = StackedNetwork(schedule, np.float64)
    assert network.crossing(round) == exchanges
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
            assert network.names == math.ceil(agents / bits)


def test_a_least_value_and_what_goes_beside_it_are_counted():
    network = StackedNetwork(PATH, np.float64)
    assert network.least(0, 3, np.array([3.0, 1.0, 2.0, *[5.0] * (PATH.agents - 3)]), beside=4) == 1.0
    assert network.exchanges == 3
    assert network.floats == 5 * network.messages
