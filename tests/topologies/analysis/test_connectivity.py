"""Components against networkx; windows of joint connectivity by hand, and against unions taken one by one."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import topologies

NOTHING = nx.empty_graph(4)
LEFT, MIDDLE, RIGHT = (nx.empty_graph(4) for _ in range(3))


LEFT.add_edge(0, 1)


MIDDLE.add_edge(1, 2)


RIGHT.add_edge(2, 3)


@pytest.mark.parametrize(
    ("graphs", "window"),
    [
        ([topologies.ring(4)], 1),
        ([LEFT, MIDDLE, RIGHT], 3),
        ([LEFT, MIDDLE, RIGHT, NOTHING], 4),
        # After a round of RIGHT up to three others come before the next.
        ([LEFT, MIDDLE, RIGHT, MIDDLE], 4),
        ([LEFT, LEFT, MIDDLE, RIGHT], 4),
        ([topologies.path(4), NOTHING], 2),
        ([topologies.path(4), NOTHING, NOTHING, topologies.star(4), NOTHING], 3),
        ([nx.Graph([(0, 1), (2, 3)]), nx.Graph([(1, 2), (0, 3)])], 2),
        ([LEFT, RIGHT], None),
        ([NOTHING], None),
        ([nx.Graph([(0, 1), (1, 2), (2, 3)]), LEFT, RIGHT], 3),
    ],
)
def test_windows_of_periodic_schedules_by_hand(graphs, window):
    assert topologies.joint_connectivity(topologies.Periodic(graphs), 5 * len(graphs)) == window


def test_a_directed_union_must_be_strongly_connected():
    there, back = nx.DiGraph([(0, 1), (1, 2)]), nx.DiGraph([(2, 0)])
    back.add_node(1)

    def window(*graphs):
        return topologies.joint_connectivity(topologies.Periodic(graphs, weights=topologies.push), 12)

    assert window(there) is None
    assert window(there, back) == 2
    assert window(there, there, there, back) == 4
    assert window(nx.cycle_graph(3, create_using=nx.DiGraph)) == 1


def test_only_the_rounds_asked_for_count():
    schedule = topologies.Periodic([LEFT, MIDDLE, RIGHT])
    assert [topologies.joint_connectivity(schedule, rounds) for rounds in (1, 2, 3, 4)] == [None, None, 3, 3]
    late = topologies.Periodic([NOTHING, NOTHING, topologies.path(4)])
    assert [topologies.joint_connectivity(late, rounds) for rounds in (1, 2, 3, 6)] == [None, None, 3, 3]
    early = topologies.Periodic([topologies.path(4), NOTHING, NOTHING])
    assert [topologies.joint_connectivity(early, rounds) for rounds in (1, 2, 3, 6)] == [1, 2, 3, 3]


def test_one_agent_is_always_connected():
    assert topologies.joint_connectivity(topologies.Static(topologies.path(1)), 7) == 1


def test_an_edge_without_weight_is_not_used():
    def deaf(graph):
        return topologies.metropolis(nx.empty_graph(len(graph)))

    assert topologies.joint_connectivity(topologies.Static(topologies.ring(4), weights=deaf), 5) is None


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


@pytest.mark.parametrize("rounds", [0, -1, 1.5])
def test_rounds_out_of_range_are_refused(rounds):
    with pytest.raises(ValueError, match="rounds must be"):
        topologies.joint_connectivity(topologies.Static(topologies.ring(4)), rounds)


def groups(schedule):
    return [group.tolist() for group in topologies.components(schedule)]


def test_a_connected_graph_is_one_component():
    assert groups(topologies.Static(topologies.ring(6))) == [[0, 1, 2, 3, 4, 5]]


def test_components_of_a_disconnected_graph_come_in_the_order_of_their_first_agents():
    graph = nx.empty_graph(7)
    graph.add_edges_from([(6, 0), (1, 5), (5, 3)])
    assert groups(topologies.Static(graph)) == [[0, 6], [1, 3, 5], [2], [4]]
    assert groups(topologies.RandomEdges(graph, 0.01, seed=0)) == [[0, 6], [1, 3, 5], [2], [4]]


def test_disconnected_graphs_can_be_jointly_connected():
    evens, odds = nx.Graph([(0, 1), (2, 3)]), nx.Graph([(1, 2), (0, 3)])
    assert groups(topologies.Periodic([evens, evens])) == [[0, 1], [2, 3]]
    assert groups(topologies.Periodic([evens, odds])) == [[0, 1, 2, 3]]


def test_random_edges_are_jointly_connected_though_no_round_is():
    schedule = topologies.RandomEdges(topologies.path(20), 0.1, seed=1)
    assert not any(nx.is_connected(schedule.graph(n)) for n in range(50))
    assert groups(schedule) == [list(range(20))]


def test_components_of_directed_graphs_are_strongly_connected():
    def to_self(graph):
        return sparse.eye_array(len(graph))

    there_and_back = nx.DiGraph([(0, 1), (1, 0), (1, 2), (2, 3), (3, 2)])
    assert groups(topologies.Static(there_and_back, weights=to_self)) == [[0, 1], [2, 3]]


def test_components_agree_with_networkx_on_a_sparse_random_graph():
    graph = topologies.erdos_renyi(500, 0.002, seed=3, connected=False)
    expected = sorted(sorted(group) for group in nx.connected_components(graph))
    assert len(expected) > 50
    assert groups(topologies.Static(graph)) == expected


@pytest.mark.parametrize(("round", "exchanges"), [(0, 4), (1, 6), (2, 5), (3, 4), (5, 5)])
def test_a_crossing_begins_in_its_round(round, exchanges):
    """Along a path of four the agents at its ends hear from each other when its edges come in turn, there and back."""
    assert (
        topologies.analysis.connectivity.crossing(topologies.Periodic([nx.compose(LEFT, RIGHT), MIDDLE, NOTHING]), round)
        == exchanges
    )
