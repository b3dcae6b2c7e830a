"""Agents on the move: where they are, who is near, uniform spread, joint connectivity, refusals."""

import math
import pickle

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
def test_agents_are_neighbours_when_they_are_within_the_radius(network):
    for n in (0, 1, 17, 10_000, 10**9):
        where = network.positions(n)
        far = np.sqrt(((where[:, None] - where) ** 2).sum(axis=2))
        near = (far <= network.radius) & ~np.eye(network.agents, dtype=bool)
        graph = network.graph(n)
        assert np.array_equal(nx.to_numpy_array(graph) > 0, near)
        assert np.array_equal(np.array([graph.nodes[k]["pos"] for k in graph]), where)
        matrix = network.weights(network.key(n))
        assert np.array_equal(matrix.toarray(), topologies.metropolis(graph).toarray())
        assert ((where >= 0) & (where <= 1)).all()


def bounce(start, step, rounds):
    """The same walk, one round after another, turning at walls."""
    where, step = start.copy(), step.copy()
    for _ in range(rounds):
        where += step
        while ((where < 0) | (where > 1)).any():
            step = np.where((where < 0) | (where > 1), -step, step)
            where = np.where(where < 0, -where, np.where(where > 1, 2 - where, where))
    return where


@pytest.mark.parametrize("network", NETWORKS[:3], ids=repr)
def test_agents_walk_on_straight_lines_that_walls_reflect(network):
    start = network.positions(0)
    step = network._step
    np.testing.assert_allclose(np.hypot(*step.T), network.speed, rtol=1e-14)
    for rounds in (1, 2, 10, 1000):
        np.testing.assert_allclose(network.positions(rounds), bounce(start, step, rounds), rtol=0, atol=1e-10)


def test_nobody_goes_further_than_its_speed_in_a_round():
    network = NETWORKS[0]
    moved = [np.hypot(*(network.positions(n + 1) - network.positions(n)).T) for n in range(200)]
    assert np.max(moved) <= network.speed * (1 + 1e-12)
    # Away from walls it goes just as far.
    assert np.isclose(moved, network.speed, rtol=1e-9).mean() > 0.8


@pytest.mark.parametrize("n", [0, 3, 10, 10_000])
def test_agents_are_spread_uniformly_at_all_times(n):
    agents, cells = 40_000, 4
    where = topologies.Mobile(agents, 0.1, 0.13, seed=1).positions(n)
    counts = np.histogram2d(*where.T, bins=cells, range=[[0, 1], [0, 1]])[0]
    share = 1 / cells**2
    assert abs(counts / agents - share).max() < 5 * math.sqrt(share * (1 - share) / agents)


def test_agents_meet_everyone_however_small_the_radius():
    network = topologies.Mobile(8, 0.1, 0.21, seed=3)
    seen = sum(network.weights(network.key(n)) for n in range(1500))
    assert np.array_equal(seen.toarray() > 0, np.ones((8, 8), dtype=bool))
    assert np.array_equal(network.union().toarray(), 1 - np.eye(8))
    assert len(topologies.components(network)) == 1
    assert nx.number_connected_components(network.graph(0)) > 1


def test_mixing_on_the_move_brings_all_agents_to_the_average():
    network, values = topologies.Mobile(20, 0.15, 0.05, seed=1), np.random.default_rng(0).standard_normal(20)
    mean = values.mean()
    for n in range(1500):
        values = network.weights(network.key(n)) @ values
    np.testing.assert_allclose(values, mean, rtol=0, atol=1e-13)


def test_settings_are_what_matters():
    network = topologies.Mobile(10, 0.3, 0.1, seed=4)
    copy = pickle.loads(pickle.dumps(network))
    assert copy == network
    assert hash(copy) == hash(network)
    assert np.array_equal(copy.positions(99), network.positions(99))
    assert repr(network) == "Mobile(agents=10, radius=0.3, speed=0.1, seed=4)"
    others = [(11, 0.3, 0.1, 4), (10, 0.4, 0.1, 4), (10, 0.3, 0.2, 4), (10, 0.3, 0.1, 5)]
    assert all(topologies.Mobile(*other) != network for other in others)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((0, 0.1, 0.1), "agents must be at least 1, got 0"),
        ((5, 0, 0.1), "radius must be a finite number above 0, got 0"),
        ((5, math.inf, 0.1), "radius must be a finite number above 0, got inf"),
        ((5, 0.1, -0.1), "speed must be a finite number above 0, got -0.1"),
        ((5, 0.1, "fast"), "speed must be a finite number above 0, got 'fast'"),
        ((5, 0.1, 0.1, -1), "seed must be at least 0, got -1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        topologies.Mobile(*settings)


def test_negative_rounds_are_refused():
    with pytest.raises(ValueError, match="round must be at least 0, got -1"):
        NETWORKS[0].positions(-1)


def test_two_agents_of_less_than_the_diagonals_reach_are_not_always_in_touch():
    network = topologies.Mobile(2, radius=1.2, speed=0.3, seed=0)
    apart = [np.linalg.norm(np.diff(network.positions(n), axis=0)) > 1.2 for n in range(2000)]
    assert 0 < np.mean(apart) < 0.2
    assert not network.static
    assert [not network.graph(n).edges for n in range(2000)] == apart
