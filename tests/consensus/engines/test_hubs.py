"""Sums through hubs: what they come to, and what they take, against messages that are passed on one exchange at a time."""

import networkx as nx
import numpy as np
import pytest

import topologies
from consensus.engines.hubs import Hubs
from consensus.engines.stacked import StackedNetwork
from consensus.packing import Multiples

GRAPHS = {
    "ring": topologies.ring(11),
    "path": topologies.path(7),
    "torus": topologies.torus(4, 5),
    "random": topologies.erdos_renyi(12, 0.3, seed=1),
    "complete": topologies.complete(5),
}
CASES = [
    (name, exchanges) for name, graph in GRAPHS.items() for exchanges in range(nx.diameter(graph), 2 * nx.radius(graph) + 1)
]


def network(graph, dtype=np.float64):
    return StackedNetwork(topologies.Static(graph), dtype)


def blocks(agents):
    """All are whole multiples of 1/8, of steps of their own."""
    rng = np.random.default_rng(agents)
    return Multiples.nearest(10 * rng.standard_normal((agents, 5, 3)), np.ldexp(1.0, rng.integers(-3, 2, agents)))


@pytest.mark.parametrize(("name", "exchanges"), CASES)
def test_they_tell_everyone_the_sum_in_time(name, exchanges):
    """Up, an agent waits for all its children; a hub that has everything tells its neighbours, who pass it on."""
    graph, net = GRAPHS[name], network(GRAPHS[name])
    A, hubs = len(graph), net.hubs(exchanges)
    waiting = {agent: {child for child in graph if hubs.parent[child] == agent != child} for agent in graph}
    has, sent, time, least = np.eye(A), set(), 0, 0
    while len(sent) < A - len(hubs.hubs):
        time += 1
        ready = [agent for agent in graph if not waiting[agent] and agent not in sent and agent not in hubs.hubs]
        assert ready
        for agent in ready:
            parent = int(hubs.parent[agent])
            assert graph.has_edge(agent, parent)
            has[parent] += has[agent]
            waiting[parent].discard(agent)
        sent.update(ready)
    least = time + max(nx.eccentricity(graph)[hub] for hub in hubs.hubs.tolist())
    np.testing.assert_array_equal(has[hubs.hubs].sum(axis=0), np.ones(A))
    assert least == hubs.exchanges <= exchanges
    assert hubs.messages(slice(0, A)) == len(sent) + len(hubs.hubs) * (A - 1)
    halves = [slice(0, A // 2), slice(A // 2, A)]
    assert sum(hubs.messages(half) for half in halves) == hubs.messages(slice(0, A))


@pytest.mark.parametrize(("name", "exchanges"), CASES)
def test_what_is_sent_of_a_sum_is_counted(name, exchanges):
    net = network(GRAPHS[name])
    A, hubs, own = net.agents, net.hubs(exchanges), blocks(net.agents)
    total, steps = net.total(own, exchanges)
    np.testing.assert_array_equal(total, own.values.sum(axis=0))
    np.testing.assert_array_equal(steps, own.step)
    sums, least, size = own.values, own.step.copy(), np.zeros(A, int)
    for agent in np.argsort(-hubs.far, kind="stable"):
        (message,) = Multiples.nearest(sums[agent : agent + 1], least[agent : agent + 1]).messages()
        size[agent] = len(message) + 8 * (len(hubs.hubs) < A)  # the squares of the steps in it
        if agent not in hubs.hubs:
            sums[hubs.parent[agent]] += sums[agent]
            least[hubs.parent[agent]] = min(least[agent], least[hubs.parent[agent]])
    assert net.bytes == size.sum() - size[hubs.hubs].sum() + (A - 1) * size[hubs.hubs].sum()
    assert net.floats == hubs.messages(net.rows) * 15
    assert net.exchanges == net.messages == 0  # it rides along


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_summed_in_exchanges_of_their_own(dtype):
    net, rows = network(GRAPHS["ring"], dtype), np.random.default_rng(0).standard_normal((11, 4))
    total = net.sum(6, rows)
    assert total.dtype == dtype
    np.testing.assert_allclose(total, rows.sum(axis=0), rtol=0, atol=20 * np.finfo(dtype).eps)
    assert (net.exchanges, net.messages, net.floats) == (6, net.hubs(6).messages(net.rows), 4 * net.messages)


def test_few_hubs_are_found():
    """By hand: on a ring of 30 with an exchange more than its diameter each serves its two neighbours, and so on."""
    counts = [len(Hubs.of(topologies.metropolis(topologies.ring(30)), exchanges).hubs) for exchanges in (15, 16, 17, 20, 30)]
    assert counts == [30, 10, 6, 3, 1]
    assert Hubs.of(topologies.metropolis(topologies.complete(9)), 2).hubs.tolist() == [0]


def test_of_many_agents_there_is_one_or_all_are():
    net = network(topologies.star(300))
    assert net.hubs(2).hubs.tolist() == [0]
    assert len(network(topologies.ring(300)).hubs(299).hubs) == 300
    assert net.sum(2, np.ones((300, 1))).tolist() == [300]
    assert (net.exchanges, net.messages) == (2, 2 * 299)
