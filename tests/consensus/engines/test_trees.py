"""Sums along trees: what they come to, and what they take, counted by hand and against messages that are really made."""

import networkx as nx
import numpy as np
import pytest

import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.engines.trees import Tree
from consensus.packing import Multiples

P, COLUMNS = 5, 3


def network(graph, dtype=np.float64):
    return StackedNetwork(topologies.Static(graph), dtype)


def blocks(agents, unit=0.3):
    rng = np.random.default_rng(agents)
    step = np.ldexp(unit, rng.integers(-3, 4, agents))
    return Multiples.nearest(rng.standard_normal((agents, P, COLUMNS)) * [10.0, 1.0, 1e-3], step)


GRAPHS = [topologies.path(7), topologies.star(6), topologies.erdos_renyi(12, 0.3, seed=1), topologies.torus(4, 5)]


@pytest.mark.parametrize("graph", GRAPHS, ids=["path", "star", "random", "torus"])
def test_the_tree_has_the_shortest_ways_from_the_centre(graph):
    tree, far = network(graph).tree, nx.eccentricity(graph)
    centre = int(tree.order[0])
    assert (tree.depth, centre) == min((far[agent], agent) for agent in graph)
    away = nx.single_source_shortest_path_length(graph, centre)
    for agent in tree.order[1:].tolist():
        assert graph.has_edge(agent, int(tree.parent[agent]))
        assert away[agent] == away[int(tree.parent[agent])] + 1


def test_without_links_both_ways_or_a_graph_that_stands_still_there_is_none():
    circle = nx.DiGraph([(k, (k + 1) % 4) for k in range(4)])
    schedules = [
        topologies.Static(circle, weights=topologies.push),
        topologies.RandomEdges(topologies.ring(5), 0.5, seed=0),
        topologies.Static(topologies.complete(1)),
    ]
    assert [StackedNetwork(schedule, np.float64).tree for schedule in schedules] == [None] * 3
    assert Tree.of(topologies.metropolis(nx.Graph([(0, 1), (2, 3)]))) is None
    assert [StackedNetwork(schedule, np.float64).both_ways for schedule in schedules] == [False, True, True]
    turning = topologies.Periodic([topologies.ring(4), circle], weights=topologies.push)
    assert not StackedNetwork(turning, np.float64).both_ways  # only at first


@pytest.mark.parametrize("graph", GRAPHS, ids=["path", "star", "random", "torus"])
def test_along_a_tree_every_sum_is_sent_in_what_it_takes(graph):
    """Every partial sum is packed, and its message measured."""
    net = network(graph)
    own, tree, A = blocks(len(graph)), net.tree, len(graph)
    total, steps = net.total(own, 2 * tree.depth)
    exact = np.rint(own.values / 0.3 * 8).sum(axis=0) * 0.3 / 8  # all are whole multiples of the unit over eight
    np.testing.assert_allclose(total, exact, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(steps, own.step)
    read = Multiples.of_messages(own.messages(), P, COLUMNS)  # as other processes have it, its numbers in another order
    np.testing.assert_array_equal(network(graph).total(read, 2 * tree.depth)[0], total)
    sums, least, up = own.values, own.step.copy(), 0
    for agent in tree.order[::-1]:
        (message,) = Multiples.nearest(sums[agent : agent + 1], least[agent : agent + 1]).messages()
        size = len(message) + 8
        if agent != tree.order[0]:
            up += size
            sums[tree.parent[agent]] += sums[agent]
            least[tree.parent[agent]] = min(least[agent], least[tree.parent[agent]])
    assert net.bytes == up + (A - 1) * size
    assert net.floats == 2 * (A - 1) * P * COLUMNS
    assert net.exchanges == net.messages == 0  # it rides along


def test_without_the_time_for_that_every_block_goes_to_all():
    net, own = network(topologies.ring(6)), blocks(6)
    total, _ = net.total(own, 3)
    np.testing.assert_allclose(total, own.values.sum(axis=0), rtol=0, atol=1e-13)
    assert net.bytes == 5 * sum(len(message) for message in own.messages())
    assert net.floats == 6 * 5 * P * COLUMNS


def test_a_block_that_is_lost_is_seen():
    values = np.ones((6, P, COLUMNS))
    values[2, 0, 0] = np.nan
    for exchanges in (3, 4, 6):
        total, _ = network(topologies.ring(6)).total(Multiples.nearest(values, np.ones(6)), exchanges)
        assert np.isnan(total).all()
