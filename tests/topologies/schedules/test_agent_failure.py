"""Agents that are away: they keep their value, keys tell only who is away, outages that are none."""

import numpy as np
import pytest
from failing import GRAPH, PUSHED, UNDIRECTED

import topologies


@pytest.mark.parametrize("name", [*UNDIRECTED, *PUSHED])
def test_agents_that_are_away_keep_their_value_to_the_bit(name):
    inner = (UNDIRECTED | PUSHED)[name]
    network = topologies.AgentFailure(inner, [(1, 5, 20), (3, 10, 30), (1, 15, 25)])
    values = np.random.default_rng(0).standard_normal((inner.agents, 2))
    for n in range(35):
        mixed = network.weights(network.key(n)) @ values
        absent = [agent for agent, first, last in ((1, 5, 25), (3, 10, 30)) if first <= n < last]
        assert network.away(n) == tuple(absent)
        assert np.array_equal(mixed[absent], values[absent])
        assert all(network.graph(n).degree[agent] == 0 for agent in absent)
        graph, whole = network.graph(n), inner.graph(n)
        assert set(graph.edges) == {edge for edge in whole.edges if not set(edge) & set(absent)}
        values = mixed
    np.testing.assert_allclose(network.weights(network.key(12)).toarray()[1], np.eye(inner.agents)[1], rtol=0, atol=0)


def test_keys_of_agent_failures_tell_only_who_is_away():
    network = topologies.AgentFailure(topologies.Static(GRAPH), [(1, 2, 4), (1, 6, 8), (5, 3, 7)])
    keys = [network.key(n) for n in range(10)]
    assert [network.away(n) for n in range(10)] == [(), (), (1,), (1, 5), (5,), (5,), (1, 5), (1,), (), ()]
    assert len(set(keys)) == 4
    assert [keys.index(key) for key in keys] == [0, 0, 2, 3, 4, 4, 3, 2, 0, 0]
    nobody = topologies.AgentFailure(topologies.Static(GRAPH), [])
    assert len({nobody.key(n) for n in range(10)}) == 1
    assert (nobody.weights(nobody.key(0)) != topologies.metropolis(GRAPH)).nnz == 0


RING = topologies.Static(topologies.ring(6))


@pytest.mark.parametrize(
    ("outages", "message"),
    [
        ([(0, 1, 2), (6, 0, 1)], r"outages\[1\] names agent 6, but the agents are 0, ..., 5"),
        ([(-1, 0, 1)], r"the agent of outages\[0\] must be at least 0, got -1"),
        ([(0, -1, 1)], r"the first round of outages\[0\] must be at least 0, got -1"),
        ([(0, 0, 1), (0, 5, 5)], r"the last round of outages\[1\] must be at least 6, got 5"),
        ([(0, 1.5, 3)], r"the first round of outages\[0\] must be an integer of at least 0, got 1.5"),
        ([(0, 1)], r"outages\[0\] must be \(agent, first, last\), got \(0, 1\)"),
        ([7], r"outages\[0\] must be \(agent, first, last\), got 7"),
    ],
)
def test_bad_outages_are_refused(outages, message):
    with pytest.raises(ValueError, match=message):
        topologies.AgentFailure(RING, outages)
