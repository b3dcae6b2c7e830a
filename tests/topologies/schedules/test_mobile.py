"""Moving agents: their positions and neighbours, uniform spread, joint connectivity."""

import math

import networkx as nx
import numpy as np
import pytest

import topologies

NETWORKS = [
    topologies.Mobile(30, 0.25, 0.05, seed=2),
    topologies.Mobile(12, 0.1, 0.7, seed=5),
    topologies.Mobile(5, 2.0, 3.5),
    topologies.Mobile(2, 0.5, 0.1),
    topologies.Mobile(1, 0.5, 0.1),
]


@pytest.mark.parametrize("network", NETWORKS, ids=repr)
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


@pytest.mark.parametrize("network", NETWORKS[:3], ids=repr)
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
