"""Links and agents that fail, in bursts, too: preserved sums, the right diagonal, what can be wrapped."""

import itertools

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies
from consensus.testing import check_schedule
from tests.helpers.every_schedule import ARC_RING, ARCS, GRAPH, column_stochastic, symmetric
from tests.helpers.turns import in_turn
from topologies.schedules.bursts import _Chains

PULLED = {f"pulled {k}": topologies.Static(graph, topologies.pull) for k, graph in enumerate((ARCS, ARC_RING, GRAPH))}
SYMMETRIC = symmetric()
INNER = SYMMETRIC | column_stochastic() | PULLED
STATIC, RING = topologies.Static(GRAPH), topologies.Static(topologies.ring(6))


def outages(agents, seed):
    """Return outages of three agents in rounds up to 40."""
    rng = np.random.default_rng(seed)
    drawn = [(int(agent), int(first), int(first + rng.integers(1, 20))) for agent, first in rng.integers(0, 20, (3, 2))]
    return [(agent % agents, first, last) for agent, first, last in drawn]


def groups(schedule):
    return [group.tolist() for group in topologies.components(schedule)]


@pytest.mark.parametrize(("name", "both"), in_turn(INNER, [True, False]))
def test_lost_weights_return_to_the_diagonal_and_preserve_sums_and_symmetry(name, both):
    inner, preserve = INNER[name], "rows" if name == "pulled 1" else None  # columns of pulled 1 sum to one, too
    axis, symmetry = 1 if name in PULLED else 0, name in SYMMETRIC
    for network in (
        topologies.LinkFailure(inner, 0.4, 3, both, preserve),
        topologies.AgentFailure(inner, outages(inner.agents, 1 + both), preserve),
    ):
        for n in range(12):
            found, whole = network.weights(network.key(n)).toarray(), inner.weights(inner.key(n)).toarray()
            lost = np.where(found == 0, whole, 0)
            np.fill_diagonal(lost, 0)
            np.testing.assert_allclose(found, whole - lost + np.diag(lost.sum(axis=axis)), rtol=0, atol=4e-16)
            kept = ~np.eye(inner.agents, dtype=bool) & (found != 0)
            assert np.array_equal(found[kept], whole[kept])
            assert (found >= 0).all()
            assert abs(found.sum(axis=axis) - 1).max() <= 4e-16
            if symmetry and (both or isinstance(network, topologies.AgentFailure)):
                assert np.array_equal(found, found.T)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_one_peer_exponential_schedules_become_column_stochastic_when_messages_are_lost(both, seed):
    network = topologies.LinkFailure(topologies.OnePeerExponential(16), 0.4, seed, both)
    for n in range(8):
        matrix = network.weights(network.key(n)).toarray()
        assert np.array_equal(matrix.sum(axis=0), np.ones(16))
        # At distance 8 of 16 two agents receive from each other, and can lose both messages together.
        assert abs(matrix.sum(axis=1) - 1).max() == (0.0 if both and n % 4 == 3 else 0.5)


@pytest.mark.parametrize("both", [True, False])
def test_two_schedules_over_one_graph_lose_the_same_messages_with_one_seed(both):
    rows, columns = (
        topologies.LinkFailure(topologies.Static(ARCS, weights=rule), 0.4, 7, both)
        for rule in (topologies.pull, topologies.push)
    )
    for n in range(20):
        assert np.array_equal(rows.weights(rows.key(n)).toarray() != 0, columns.weights(columns.key(n)).toarray() != 0)


def test_both_directions_of_an_edge_fail_together_or_independently():
    for both, possible in ((True, {(True, True), (False, False)}), (False, set(itertools.product([True, False], repeat=2)))):
        network = topologies.LinkFailure(INNER["arcs"], 0.5, seed=1, symmetric=both)
        graphs = [network.graph(n) for n in range(40)]
        assert {(graph.has_edge(0, 2), graph.has_edge(2, 0)) for graph in graphs} == possible
        for probability in (0.0, 0.5):
            assert topologies.LinkFailure(STATIC, probability, symmetric=both).graph(1).is_directed() is not both


def test_graphs_keep_edges_that_no_weight_uses():
    def every_other(graph):
        kept = nx.empty_graph(len(graph))
        kept.add_edges_from((i, j) for i, j in graph.edges if (i + j) % 4 == 1)
        return topologies.metropolis(kept)

    network = topologies.LinkFailure(topologies.Static(topologies.ring(8), weights=every_other), 0.5, seed=1)
    for n in range(20):
        used = np.argwhere(np.triu(network.weights(network.key(n)).toarray(), 1)).tolist()
        assert {(i, j) for i, j in used} <= set(network.graph(n).edges)


@pytest.mark.parametrize("name", INNER)
def test_without_failures_keys_and_matrices_are_those_of_the_wrapped_schedule(name):
    inner = INNER[name]
    network = topologies.LinkFailure(inner, 0.0)
    for n in range(5):
        assert network.key(n) == inner.key(n)
        assert (network.weights(network.key(n)) != inner.weights(inner.key(n))).nnz == 0
    assert groups(topologies.LinkFailure(inner, 0.9)) == groups(inner)


@pytest.mark.parametrize("name", INNER)
def test_disconnected_agents_keep_their_values_to_the_bit(name):
    inner = INNER[name]
    network = topologies.AgentFailure(inner, [(1, 5, 20), (3, 10, 30), (1, 15, 25)])
    values = np.random.default_rng(0).standard_normal((inner.agents, 2))
    for n in range(35):
        mixed = network.weights(network.key(n)) @ values
        absent = [agent for agent, first, last in ((1, 5, 25), (3, 10, 30)) if first <= n < last]
        assert network.away(n) == tuple(absent)
        assert np.array_equal(mixed[absent], values[absent])
        assert set(network.graph(n).edges) == {edge for edge in inner.graph(n).edges if not set(edge) & set(absent)}
        values = mixed
    assert np.array_equal(network.weights(network.key(12)).toarray()[1], np.eye(inner.agents)[1])


def test_keys_of_agent_failures_depend_only_on_the_disconnected_agents():
    network = topologies.AgentFailure(STATIC, [(1, 2, 4), (1, 6, 8), (5, 3, 7)])
    keys = [network.key(n) for n in range(10)]
    assert [network.away(n) for n in range(10)] == [(), (), (1,), (1, 5), (5,), (5,), (1, 5), (1,), (), ()]
    assert len(set(keys)) == 4
    assert [keys.index(key) for key in keys] == [0, 0, 2, 3, 4, 4, 3, 2, 0, 0]
    nobody = topologies.AgentFailure(STATIC, [])
    assert len({nobody.key(n) for n in range(10)}) == 1
    assert (nobody.weights(nobody.key(0)) != topologies.metropolis(GRAPH)).nnz == 0


def test_only_agents_that_never_return_are_components_of_their_own():
    assert len(groups(topologies.AgentFailure(RING, [(2, 0, 10**6)]))) == 1
    for_good = topologies.AgentFailure(RING, [(2, 5, None), (3, 0, 10), (4, 0, None)])
    assert groups(for_good) == [[0, 1, 5], [2], [3], [4]]
    assert for_good.away(10**9) == (2, 4)


class Own:
    """A user's schedule without ``union``, with matrices in another format, unsorted and with a repeated entry."""

    agents = 3

    def key(self, round):
        return 0

    def weights(self, key):
        rows, columns = [0, 0, 0, 1, 1, 2, 2], [2, 0, 0, 1, 2, 1, 0]
        return sparse.coo_array(([0.5, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5], (rows, columns)), shape=(3, 3))

    def graph(self, round):
        return nx.path_graph([0, 2, 1])


def test_a_wrapped_schedule_needs_no_union_and_no_sorted_entries():
    network = topologies.LinkFailure(Own(), 0.5)
    for n in range(20):
        matrix = network.weights(network.key(n))
        assert matrix.has_canonical_format
        assert (matrix.data != 0).all()
        assert np.array_equal(matrix.toarray(), matrix.toarray().T)
        assert np.array_equal(matrix.toarray().sum(axis=1), np.ones(3))
        assert network.graph(n).has_edge(0, 2) is bool(matrix[0, 2])
    for failing, count in (network, 1), (topologies.AgentFailure(Own(), [(1, 0, None)]), 2):
        assert not hasattr(failing, "union")
        assert topologies.conditions(failing, rounds=50).components == count


def test_matrices_whose_sums_are_not_one_are_rejected_at_once_unless_preserve_is_given():
    inner = topologies.Static(topologies.path(3), weights=topologies.adjacency)
    with pytest.raises(ValueError, match=r"neither the columns nor the rows .* pass preserve='columns' or preserve='rows'"):
        topologies.LinkFailure(inner, 0.5)
    network = topologies.LinkFailure(inner, 0.5, preserve="columns")
    for n in range(10):
        assert np.array_equal(network.weights(network.key(n)).toarray().sum(axis=0), [1, 2, 1])


# Losses in bursts and agents that are active at random: their laws.


def lengths(down):
    """Return the lengths of the runs of True in each column that begin and end inside."""
    found = []
    for column in down.T:
        edges = np.flatnonzero(np.diff(column.astype(int)))
        spans = np.diff(edges)
        found += spans[0 if column[edges[0] + 1] else 1 :: 2].tolist() if len(edges) > 1 else []
    return np.array(found)


@pytest.mark.parametrize(("loss", "burst"), [(0.2, 4.0), (0.5, 2.0), (0.05, 10.0)])
def test_the_loss_rate_and_the_mean_burst_are_those_that_are_asked_for(loss, burst):
    chains = _Chains(b"test", 3, loss, burst)
    down = np.array([chains.at(round, 500) for round in range(150)])
    assert abs(down.mean() - loss) < 0.1 * loss + 0.003
    assert abs(down[0].mean() - loss) < 0.06  # from the first round on
    assert abs(lengths(down[:, :]).mean() - burst) < 0.12 * burst
    follows = down[1:][down[:-1]].mean()
    assert abs(follows - (1 - 1 / burst)) < 0.02  # the chance to stay: the chain is Markov's
    twice = down[2:][down[1:-1] & ~down[:-2]].mean()
    assert abs(twice - follows) < 0.06  # whatever was before


def test_rounds_do_not_depend_on_their_order():
    network = topologies.GilbertElliott(topologies.Static(topologies.ring(8)), 0.3, 6.0, seed=1)
    rounds = [17, 3, 40, 0, 17]
    first = [network.weights(network.key(n)).toarray() for n in rounds]
    again = topologies.GilbertElliott(topologies.Static(topologies.ring(8)), 0.3, 6.0, seed=1)
    assert all((again.weights(n).toarray() == W).all() for n, W in reversed(list(zip(rounds, first))))
    assert network == again
    assert network != topologies.GilbertElliott(topologies.Static(topologies.ring(8)), 0.3, 7.0, seed=1)


def test_every_matrix_is_doubly_stochastic_and_inactive_agents_are_alone():
    static = topologies.Static(topologies.complete(6))
    for network in (
        topologies.GilbertElliott(static, 0.4, 3.0),
        topologies.RandomActivation(static, 0.5),
        topologies.RandomActivation(static, 0.5, idle=5.0),
    ):
        check_schedule(network, mixing="symmetric")
    network = topologies.RandomActivation(static, 0.5, idle=5.0, seed=2)
    for n in range(30):
        W, active = network.weights(n).toarray(), network.active(n)
        away = sorted(set(range(6)) - set(active))
        assert (W[away] == np.eye(6)[away]).all()
        assert all(W[i, j] > 0 for i in active for j in active)
        assert set(network.graph(n).edges) == {(i, j) for i in active for j in active if i < j}


def test_what_cannot_be_is_refused():
    static = topologies.Static(topologies.ring(5))
    with pytest.raises(ValueError, match=r"burst must be a number >= 1 / \(1 - loss\) = 2"):
        topologies.GilbertElliott(static, 0.5, 1.5)
    with pytest.raises(ValueError, match=r"loss must be a number in \[0, 1\)"):
        topologies.GilbertElliott(static, 1.0, 3.0)
    with pytest.raises(ValueError, match=r"probability must be a number in \(0, 1\]"):
        topologies.RandomActivation(static, 0.0)
    with pytest.raises(ValueError, match=r"idle must be a number >= 1 / probability = 2"):
        topologies.RandomActivation(static, 0.5, idle=1.0)
    assert topologies.RandomActivation(static, 1.0).static
    assert topologies.GilbertElliott(static, 0.0, 1.0).static
