"""Components against networkx; windows of joint connectivity by hand, and against unions taken one by one."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import topologies
from tests.helpers.networks import EVENS, ODDS

NOTHING, PATH = nx.empty_graph(4), topologies.path(4)
LEFT, MIDDLE, RIGHT = (nx.compose(NOTHING, nx.Graph([edge])) for edge in PATH.edges)
THERE, BACK = nx.DiGraph([(0, 1), (1, 2)]), nx.compose(nx.empty_graph(3, create_using=nx.DiGraph), nx.DiGraph([(2, 0)]))


@pytest.mark.parametrize(("graphs", "window"), [
    ([topologies.ring(4)], 1),
    ([LEFT, MIDDLE, RIGHT], 3),
    ([LEFT, MIDDLE, RIGHT, NOTHING], 4),
    ([LEFT, MIDDLE, RIGHT, MIDDLE], 4),  # RIGHT is in one of four rounds
    ([LEFT, LEFT, MIDDLE, RIGHT], 4),
    ([PATH, NOTHING], 2),
    ([PATH, NOTHING, NOTHING, topologies.star(4), NOTHING], 3),
    ([EVENS, ODDS], 2),
    ([LEFT, RIGHT], None),
    ([NOTHING], None),
    ([PATH, LEFT, RIGHT], 3),
    ([topologies.path(1)], 1),
    ([THERE], None),  # a directed union must be strongly connected
    ([THERE, BACK], 2),
    ([THERE, THERE, THERE, BACK], 4),
    ([nx.cycle_graph(3, create_using=nx.DiGraph)], 1),
])  # fmt: skip
def test_windows_of_periodic_schedules_by_hand(graphs, window):
    schedule = topologies.Periodic(graphs, weights=topologies.push)
    assert topologies.joint_connectivity(schedule, 5 * len(graphs)) == window


@pytest.mark.parametrize(("graphs", "windows"), [
    ([LEFT, MIDDLE, RIGHT], [None, None, 3, 3, 3, 3]),
    ([NOTHING, NOTHING, PATH], [None, None, 3, 3, 3, 3]),
    ([PATH, NOTHING, NOTHING], [1, 2, 3, 3, 3, 3]),
])  # fmt: skip
def test_only_the_first_rounds_count(graphs, windows):
    schedule = topologies.Periodic(graphs)
    assert [topologies.joint_connectivity(schedule, rounds) for rounds in range(1, 7)] == windows


def test_an_edge_without_weight_does_not_connect():
    def identity(graph):
        return sparse.eye_array(len(graph))

    assert topologies.joint_connectivity(topologies.Static(topologies.ring(4), weights=identity), 5) is None


def one_by_one(graphs, rounds, connected):
    """The definition: try every window, and every place of it."""
    for window in range(1, rounds + 1):
        unions = (nx.compose_all(graphs[first : first + window]) for first in range(rounds - window + 1))
        if all(map(connected, unions)):
            return window
    return None


@pytest.mark.slow
@settings(derandomize=True, deadline=None, database=None, max_examples=150)
@given(
    agents=st.integers(1, 5),
    rounds=st.integers(1, 14),
    density=st.floats(0.05, 0.5),
    seed=st.integers(0, 10**6),
    directed=st.booleans(),
)
def test_random_sequences_agree_with_the_definition(agents, rounds, density, seed, directed):
    edges = np.random.default_rng(seed).random((rounds, agents, agents)) < density
    edges &= ~np.eye(agents, dtype=bool)
    kind, connected = (nx.DiGraph, nx.is_strongly_connected) if directed else (nx.Graph, nx.is_connected)
    if not directed:
        edges |= edges.transpose(0, 2, 1)
    graphs = [nx.from_numpy_array(round_, create_using=kind) for round_ in edges]
    found = topologies.joint_connectivity(topologies.Periodic(graphs, weights=topologies.push), rounds)
    assert found == one_by_one(graphs, rounds, connected)


def test_random_edges_agree_with_the_definition():
    schedule = topologies.RandomEdges(topologies.ring(8), 0.3, seed=2)
    graphs = [schedule.graph(n) for n in range(60)]
    assert topologies.joint_connectivity(schedule, 60) == one_by_one(graphs, 60, nx.is_connected) > 3


APART = nx.compose(nx.empty_graph(7), nx.Graph([(6, 0), (1, 5), (5, 3)]))
SPARSE = topologies.erdos_renyi(500, 0.002, seed=3, connected=False)


@pytest.mark.parametrize(("schedule", "groups"), [
    (topologies.Static(topologies.ring(6)), [[0, 1, 2, 3, 4, 5]]),
    (topologies.Static(APART), [[0, 6], [1, 3, 5], [2], [4]]),  # in the order of their first agents
    (topologies.RandomEdges(APART, 0.01, seed=0), [[0, 6], [1, 3, 5], [2], [4]]),
    (topologies.RandomEdges(topologies.path(20), 0.1, seed=1), [list(range(20))]),
    (topologies.Periodic([EVENS, EVENS]), [[0, 1], [2, 3]]),
    (topologies.Periodic([EVENS, ODDS]), [[0, 1, 2, 3]]),
    (
        topologies.Static(nx.DiGraph([(0, 1), (1, 0), (1, 2), (2, 3), (3, 2)]), weights=topologies.push),
        [[0, 1], [2, 3]],  # strongly connected
    ),
    (topologies.Static(SPARSE), sorted(map(sorted, nx.connected_components(SPARSE)))),
])  # fmt: skip
def test_components(schedule, groups):
    assert [group.tolist() for group in topologies.components(schedule)] == groups


@pytest.mark.parametrize(("round", "exchanges"), [(0, 4), (1, 6), (2, 5), (3, 4), (5, 5)])
def test_a_crossing_begins_in_the_given_round(round, exchanges):
    """The ends of a path of four have information from each other when its edges were used in order, in both directions."""
    schedule = topologies.Periodic([nx.compose(LEFT, RIGHT), MIDDLE, NOTHING])
    assert topologies.analysis.crossing(schedule, round) == exchanges
