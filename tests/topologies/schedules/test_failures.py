"""Failures: sums that survive, weights that return to the right diagonal, frequencies, agents that keep their value."""

import itertools
import math
import pickle

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies

GRAPH = topologies.erdos_renyi(12, 0.4, seed=1)
ARCS = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2), (2, 0), (1, 4)])
ARC_RING = nx.DiGraph([(k, (k + 1) % 5) for k in range(5)])


def everyone_else(graph):
    """Doubly stochastic weights without self-weights, of a complete graph."""
    return topologies.adjacency(graph) / (len(graph) - 1)


UNDIRECTED = {
    "static": topologies.Static(GRAPH),
    "periodic": topologies.Periodic([topologies.ring(12), GRAPH, nx.empty_graph(12)]),
    "random": topologies.RandomEdges(GRAPH, 0.6, seed=1),
    "matchings": topologies.Matchings(12, seed=1),
    "mobile": topologies.Mobile(12, 0.4, 0.1, seed=1),
    "no self-weights": topologies.Static(topologies.complete(12), weights=everyone_else),
    "failures": topologies.LinkFailure(topologies.Static(GRAPH), 0.3, seed=9),
    "agents": topologies.AgentFailure(topologies.Static(GRAPH), [(0, 5, 25), (7, 10, None)]),
}
PUSHED = {
    "arcs": topologies.Static(ARCS, weights=topologies.push),
    "ring": topologies.Static(ARC_RING, weights=topologies.push),
    "periodic": topologies.Periodic([ARCS, ARC_RING], weights=topologies.push),
    "both ways": topologies.Static(GRAPH, weights=topologies.push),
    "one peer": topologies.OnePeerExponential(9),
}


def sums(matrix, axis):
    return np.asarray(matrix.sum(axis=axis)).ravel()


def away(schedule, seed=0):
    """Three agents that are away now and then, of rounds up to 40."""
    rng = np.random.default_rng(seed)
    outages = [(int(agent), int(first), int(first + rng.integers(1, 20))) for agent, first in rng.integers(0, 20, (3, 2))]
    return [(agent % schedule.agents, first, last) for agent, first, last in outages]


@pytest.mark.parametrize("name", UNDIRECTED)
@pytest.mark.parametrize("seed", range(4))
def test_symmetric_doubly_stochastic_matrices_stay_so(name, seed):
    inner = UNDIRECTED[name]
    for network in (topologies.LinkFailure(inner, 0.4, seed=seed), topologies.AgentFailure(inner, away(inner, seed))):
        for n in range(40):
            matrix, whole = network.weights(network.key(n)), inner.weights(inner.key(n)).toarray()
            dense = matrix.toarray()
            assert np.array_equal(dense, dense.T)
            assert abs(sums(matrix, 0) - 1).max() <= 4e-16
            apart = ~np.eye(12, dtype=bool) & (dense != 0)
            assert np.array_equal(dense[apart], whole[apart])
            assert (dense >= 0).all()


@pytest.mark.parametrize("name", PUSHED)
@pytest.mark.parametrize("symmetric", [True, False])
def test_column_stochastic_matrices_stay_so_and_a_senders_weight_returns_to_it(name, symmetric):
    inner = PUSHED[name]
    for network in (
        topologies.LinkFailure(inner, 0.4, seed=3, symmetric=symmetric),
        topologies.AgentFailure(inner, away(inner)),
    ):
        for n in range(40):
            matrix, whole = network.weights(network.key(n)), inner.weights(inner.key(n)).toarray()
            dense = matrix.toarray()
            assert abs(sums(matrix, 0) - 1).max() <= 4e-16
            lost = np.where(dense == 0, whole, 0)
            np.fill_diagonal(lost, 0)
            np.testing.assert_allclose(dense, whole - lost + np.diag(lost.sum(axis=0)), rtol=0, atol=4e-16)


@pytest.mark.parametrize("graph", [ARCS, ARC_RING, GRAPH])
@pytest.mark.parametrize("symmetric", [True, False])
def test_row_stochastic_matrices_stay_so_where_rows_are_to_be_preserved(graph, symmetric):
    inner = topologies.Static(graph, weights=topologies.pull)
    for network in (
        topologies.LinkFailure(inner, 0.4, seed=3, symmetric=symmetric, preserve="rows"),
        topologies.AgentFailure(inner, away(inner), preserve="rows"),
    ):
        for n in range(30):
            assert abs(sums(network.weights(network.key(n)), 1) - 1).max() <= 4e-16


def test_rows_are_preserved_by_default_when_columns_do_not_sum_to_one():
    inner = topologies.Static(ARCS, weights=topologies.pull)
    assert abs(sums(inner.weights(0), 0) - 1).max() > 0.1
    for network in (topologies.LinkFailure(inner, 0.5, symmetric=False), topologies.AgentFailure(inner, [(0, 0, 9)])):
        assert all(abs(sums(network.weights(network.key(n)), 1) - 1).max() <= 4e-16 for n in range(9))


def test_one_way_loss_leaves_a_doubly_stochastic_matrix_column_stochastic_only():
    network = topologies.LinkFailure(topologies.Static(GRAPH), 0.3, seed=1, symmetric=False)
    matrices = [network.weights(network.key(n)) for n in range(20)]
    assert all(abs(sums(matrix, 0) - 1).max() <= 4e-16 for matrix in matrices)
    assert all(abs(sums(matrix, 1) - 1).max() > 0.01 for matrix in matrices)


@pytest.mark.parametrize("name", UNDIRECTED)
def test_averages_survive_thousands_of_rounds_of_loss(name):
    network = topologies.LinkFailure(UNDIRECTED[name], 0.3, seed=2)
    values = np.random.default_rng(0).standard_normal((12, 3))
    mean = values.mean(axis=0)
    for n in range(3000):
        values = network.weights(network.key(n)) @ values
    np.testing.assert_allclose(values.mean(axis=0), mean, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["static", "random", "matchings", "failures"])
def test_agents_agree_on_the_average_in_spite_of_loss(name):
    network = topologies.LinkFailure(UNDIRECTED[name], 0.5, seed=2)
    values = np.random.default_rng(0).standard_normal(12)
    mean = values.mean()
    for n in range(1000):
        values = network.weights(network.key(n)) @ values
    np.testing.assert_allclose(values, mean, rtol=0, atol=1e-13)


def test_push_sum_reaches_the_average_under_one_way_loss():
    network = topologies.LinkFailure(topologies.Static(ARCS, weights=topologies.push), 0.4, seed=2, symmetric=False)
    values, mass = np.random.default_rng(0).standard_normal(5), np.ones(5)
    mean = values.mean()
    for n in range(500):
        matrix = network.weights(network.key(n))
        values, mass = matrix @ values, matrix @ mass
    np.testing.assert_allclose(values / mass, mean, rtol=0, atol=1e-13)
    assert mass.sum() == pytest.approx(5, abs=1e-13)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("probability", [0.05, 0.5, 0.9])
def test_links_fail_with_the_given_frequency_and_independently(probability, symmetric):
    agents, rounds = 10, 2000
    inner = topologies.Static(topologies.complete(agents))
    network = topologies.LinkFailure(inner, probability, seed=6, symmetric=symmetric)
    apart = np.triu_indices(agents, 1) if symmetric else np.nonzero(~np.eye(agents, dtype=bool))
    failed = np.array([network.weights(n).toarray()[apart] == 0 for n in range(rounds)])
    deviation = math.sqrt(probability * (1 - probability) / rounds)
    # Five standard deviations of a binomial count, for each link, then for all of them together.
    assert abs(failed.mean(axis=0) - probability).max() < 5 * deviation
    assert abs(failed.mean() - probability) < 5 * deviation / math.sqrt(failed.shape[1])
    between = np.corrcoef(failed.T)[np.triu_indices(failed.shape[1], 1)]
    assert abs(between).max() < 6 / math.sqrt(rounds)
    successive = np.mean((failed[1:] - probability) * (failed[:-1] - probability))
    assert abs(successive) < 5 * probability * (1 - probability) / math.sqrt(failed[1:].size)


def test_failures_are_independent_of_random_edges_under_the_same_seed():
    graph, rounds = topologies.complete(10), 2000
    inner = topologies.RandomEdges(graph, 0.5, seed=4)
    network = topologies.LinkFailure(inner, 0.5, seed=4)
    there = np.mean([network.weights(n).nnz - 10 for n in range(rounds)]) / 90
    assert abs(there - 0.25) < 5 * math.sqrt(0.25 * 0.75 / (45 * rounds))


def test_two_schedules_over_one_graph_lose_the_same_messages_under_one_seed():
    for symmetric in (True, False):
        rows, columns = (
            topologies.LinkFailure(topologies.Static(ARCS, weights=rule), 0.4, 7, symmetric)
            for rule in (topologies.pull, topologies.push)
        )
        for n in range(20):
            one, other = rows.weights(rows.key(n)).toarray(), columns.weights(columns.key(n)).toarray()
            assert np.array_equal(one != 0, other != 0)


def test_both_directions_fail_together_or_each_by_itself():
    together = topologies.LinkFailure(topologies.Static(ARCS, weights=topologies.push), 0.5, seed=1)
    apart = topologies.LinkFailure(topologies.Static(ARCS, weights=topologies.push), 0.5, seed=1, symmetric=False)
    ways = {
        network: {(network.graph(n).has_edge(0, 2), network.graph(n).has_edge(2, 0)) for n in range(40)}
        for network in (together, apart)
    }
    assert ways[together] == {(True, True), (False, False)}
    assert ways[apart] == set(itertools.product([True, False], repeat=2))


def test_graphs_are_directed_when_directions_fail_by_themselves_and_keep_node_attributes():
    graph = topologies.random_geometric(12, 0.5, seed=1)
    for symmetric in (True, False):
        drawn = topologies.LinkFailure(topologies.Static(graph), 0.5, symmetric=symmetric).graph(1)
        assert drawn.is_directed() is not symmetric
        assert dict(drawn.nodes(data="pos")) == dict(graph.nodes(data="pos"))
    assert topologies.LinkFailure(topologies.Static(graph), 0.0, symmetric=False).graph(1).is_directed()
    drawn = topologies.AgentFailure(topologies.Static(graph), [(0, 0, 9)]).graph(1)
    assert dict(drawn.nodes(data="pos")) == dict(graph.nodes(data="pos"))


def test_an_edge_of_the_graph_that_no_weight_uses_does_not_confuse_graphs():
    def every_other(graph):
        kept = nx.empty_graph(len(graph))
        kept.add_edges_from((i, j) for i, j in graph.edges if (i + j) % 4 == 1)
        return topologies.metropolis(kept)

    network = topologies.LinkFailure(topologies.Static(topologies.ring(8), weights=every_other), 0.5, seed=1)
    for n in range(20):
        found = network.weights(network.key(n)).toarray()
        np.fill_diagonal(found, 0)
        assert {(i, j) for i, j in np.argwhere(np.triu(found)).tolist()} <= set(network.graph(n).edges)


def test_without_failures_matrices_and_keys_are_the_very_same():
    for inner in (*UNDIRECTED.values(), *PUSHED.values()):
        network = topologies.LinkFailure(inner, 0.0)
        for n in range(5):
            assert network.key(n) == inner.key(n)
            assert (network.weights(network.key(n)) != inner.weights(inner.key(n))).nnz == 0


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


def test_joint_connectivity_under_failures():
    ring = topologies.Static(topologies.ring(6))
    for inner in (*UNDIRECTED.values(), *PUSHED.values()):
        expected = [group.tolist() for group in topologies.components(inner)]
        network = topologies.LinkFailure(inner, 0.9)
        assert [group.tolist() for group in topologies.components(network)] == expected
    assert len(topologies.components(topologies.AgentFailure(ring, [(2, 0, 10**6)]))) == 1
    for_good = topologies.AgentFailure(ring, [(2, 5, None), (3, 0, 10), (4, 0, None)])
    assert [group.tolist() for group in topologies.components(for_good)] == [[0, 1, 5], [2], [3], [4]]
    assert for_good.away(10**9) == (2, 4)


def test_failures_travel_compare_and_show_their_settings():
    inner = topologies.Static(topologies.ring(6))
    made = [
        topologies.LinkFailure(inner, 0.5),
        topologies.LinkFailure(inner, 0.4),
        topologies.LinkFailure(inner, 0.5, seed=1),
        topologies.LinkFailure(inner, 0.5, symmetric=False),
        topologies.LinkFailure(inner, 0.5, preserve="rows"),
        topologies.LinkFailure(topologies.Static(topologies.path(6)), 0.5),
        topologies.AgentFailure(inner, [(0, 1, 2)]),
        topologies.AgentFailure(inner, [(0, 1, 3)]),
        topologies.AgentFailure(inner, [(0, 1, 2)], preserve="rows"),
    ]
    assert all(one != other for one, other in itertools.combinations(made, 2))
    for network in made:
        network.weights(network.key(1))
        copy = pickle.loads(pickle.dumps(network))
        assert copy == network
        assert hash(copy) == hash(network)
    whole = "Static(agents=6, edges=6, weights=metropolis)"
    assert repr(made[0]) == f"LinkFailure({whole}, probability=0.5, seed=0, symmetric=True)"
    assert repr(made[4]) == f"LinkFailure({whole}, probability=0.5, seed=0, symmetric=True, preserve='rows')"
    assert repr(made[6]) == f"AgentFailure({whole}, outages=[(0, 1, 2)])"
    many = topologies.AgentFailure(inner, [(0, n, None) for n in range(9)])
    assert repr(many).endswith("outages=[(0, 0, None), (0, 1, None), (0, 2, None), (0, 3, None), ...])")


def test_matrices_of_other_formats_and_unsorted_entries_are_read_too():
    class Odd:
        agents = 3

        def key(self, round):
            return 0

        def weights(self, key):
            rows, columns = [0, 0, 0, 1, 1, 2, 2], [2, 0, 0, 1, 2, 1, 0]
            return sparse.coo_array(([0.5, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5], (rows, columns)), shape=(3, 3))

        def graph(self, round):
            return nx.path_graph([0, 2, 1])

    inner = Odd()
    for n in range(20):
        network = topologies.LinkFailure(inner, 0.5)
        matrix = network.weights(network.key(n))
        assert matrix.has_canonical_format
        assert (matrix.data != 0).all()
        assert np.array_equal(matrix.toarray(), matrix.toarray().T)
        assert np.array_equal(sums(matrix, 1), np.ones(3))
        graph = network.graph(n)
        assert graph.has_edge(0, 2) is bool(matrix[0, 2])


def test_what_fails_need_not_know_all_its_edges():
    class Own:
        agents = 4

        def key(self, round):
            return 0

        def weights(self, key):
            return topologies.metropolis(topologies.ring(4))

        def graph(self, round):
            return topologies.ring(4)

    for network, groups in (topologies.LinkFailure(Own(), 0.5), 1), (topologies.AgentFailure(Own(), [(1, 0, None)]), 2):
        assert not hasattr(network, "union")
        assert topologies.conditions(network, rounds=50).components == groups


RING = topologies.Static(topologies.ring(6))


@pytest.mark.parametrize("probability", [1, 1.0, -0.1, math.nan, "half", None])
def test_probabilities_out_of_range_are_refused(probability):
    with pytest.raises(ValueError, match=rf"probability must be a number in \[0, 1\), got {probability!r}"):
        topologies.LinkFailure(RING, probability)


@pytest.mark.parametrize(
    "make", [lambda inner: topologies.LinkFailure(inner, 0.5), lambda inner: topologies.AgentFailure(inner, [])]
)
@pytest.mark.parametrize("inner", [topologies.ring(6), np.eye(3), None])
def test_only_schedules_can_fail(make, inner):
    kind = "None" if inner is None else type(inner).__name__
    with pytest.raises(TypeError, match=rf"schedule must be a schedule, .*Static\(graph\); (.|\n)*{kind}"):
        make(inner)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 0.5}, "seed must be an integer"),
        ({"symmetric": "no"}, "symmetric must be True or False, got 'no'"),
        ({"preserve": "sums"}, "preserve must be 'columns', 'rows' or None, got 'sums'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        topologies.LinkFailure(RING, 0.5, **settings)


def test_matrices_whose_sums_are_not_one_are_refused_at_once_unless_told_what_to_keep():
    inner = topologies.Static(topologies.path(3), weights=topologies.adjacency)
    with pytest.raises(ValueError, match=r"neither the columns nor the rows .* pass preserve='columns' or preserve='rows'"):
        topologies.LinkFailure(inner, 0.5)
    network = topologies.LinkFailure(inner, 0.5, preserve="columns")
    for n in range(10):
        assert np.array_equal(sums(network.weights(network.key(n)), 0), [1, 2, 1])


@pytest.mark.parametrize(
    ("outages", "message"),
    [
        ([(0, 1, 2), (6, 0, 1)], r"outages\[1\] is about agent 6, but the agents are 0, ..., 5"),
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
