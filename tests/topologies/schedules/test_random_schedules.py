"""Random edges, failing links, matchings and moving agents: definitions, frequencies, independence."""

import itertools
import math

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import topologies
from consensus.testing import check_schedule
from tests.helpers.every_schedule import ARC_RING, ARCS, GRAPH, column_stochastic, symmetric
from tests.helpers.networks import same
from tests.helpers.refusals import refusals
from tests.helpers.turns import in_turn
from topologies.schedules.base import stream
from topologies.schedules.bursts import _Chains


@pytest.mark.parametrize("probability", [0.05, 0.5, 1.0])
@pytest.mark.parametrize(
    "graph",
    [topologies.erdos_renyi(40, 0.2, seed=1), topologies.star(30), topologies.complete(12)],
    ids=["random", "star", "complete"],
)
def test_matrices_are_the_metropolis_matrices_of_their_graphs_to_the_bit(graph, probability):
    schedule = topologies.RandomEdges(graph, probability, seed=7)
    for n in range(20):
        assert same(schedule.weights(schedule.key(n)), topologies.metropolis(schedule.graph(n)))
        assert probability < 1 or same(schedule.weights(schedule.key(n)), topologies.metropolis(graph))


COMPLETE = topologies.complete(12)
MAKERS = {
    "edges": lambda probability: topologies.RandomEdges(COMPLETE, probability, seed=8),
    "links": lambda probability: topologies.LinkFailure(topologies.Static(COMPLETE), 1 - probability, seed=6),
    "messages": lambda probability: topologies.LinkFailure(topologies.Static(COMPLETE), 1 - probability, 6, symmetric=False),
}


@pytest.mark.parametrize(("name", "probability"), in_turn(MAKERS, [0.1, 0.5, 0.95]))
def test_edges_are_present_with_the_given_frequency_and_independently(name, probability):
    schedule, rounds = MAKERS[name](probability), 1000
    places = np.nonzero(~np.eye(12, dtype=bool)) if name == "messages" else np.triu_indices(12, 1)
    present = np.array([schedule.weights(n).toarray()[places] > 0 for n in range(rounds)])
    # Five standard deviations of a binomial count, for each edge, then for all of them together.
    deviation = math.sqrt(probability * (1 - probability) / rounds)
    assert abs(present.mean(axis=0) - probability).max() < 5 * deviation
    assert abs(present.mean() - probability) < 5 * deviation / math.sqrt(present.shape[1])
    between = np.corrcoef(present.T)[np.triu_indices(present.shape[1], 1)]
    assert abs(between).max() < 6 / math.sqrt(rounds)
    successive = np.mean((present[1:] - probability) * (present[:-1] - probability))
    assert abs(successive) < 5 * probability * (1 - probability) / math.sqrt(present[1:].size)


@pytest.mark.slow
def test_failures_are_independent_of_random_edges_with_the_same_seed():
    graph, rounds = topologies.complete(10), 2000
    network = topologies.LinkFailure(topologies.RandomEdges(graph, 0.5, seed=4), 0.5, seed=4)
    present = np.mean([network.weights(n).nnz - 10 for n in range(rounds)]) / 90
    assert abs(present - 0.25) < 5 * math.sqrt(0.25 * 0.75 / (45 * rounds))


GRAPHS = {
    "star": topologies.star(9),
    "grid": topologies.grid(4, 5),
    "random": topologies.erdos_renyi(30, 0.2, seed=1),
    "disconnected": nx.disjoint_union(topologies.ring(5), nx.empty_graph(3)),
}


def averages_pairs(matrix):
    """Whether a matrix is a symmetric projection, and each row has two halves or a one."""
    rows = [sorted(row[row != 0]) for row in matrix]
    symmetric, projection = np.array_equal(matrix, matrix.T), np.array_equal(matrix @ matrix, matrix)
    return symmetric and projection and all(row in ([1.0], [0.5, 0.5]) for row in rows)


@pytest.mark.parametrize("agents", [1, 2, 3, 8, 9])
def test_matchings_of_all_agents_leave_at_most_one_unmatched(agents):
    network = topologies.Matchings(agents, seed=3)
    for n in range(30):
        matrix = network.weights(network.key(n)).toarray()
        assert averages_pairs(matrix)
        assert np.count_nonzero(matrix.diagonal() == 1) == agents % 2
        assert network.graph(n).number_of_edges() == agents // 2


@pytest.mark.parametrize("name", GRAPHS)
def test_matchings_of_a_graph_are_maximal_and_take_free_edges_in_a_random_order(name):
    graph, seed = GRAPHS[name], 5
    edges = np.argwhere(np.triu(nx.to_numpy_array(graph)))
    network = topologies.Matchings(len(graph), seed=seed, graph=graph)
    for n in range(30):
        taken, free = set(), set(graph)
        for i, j in edges[stream(b"pair", seed, n).permutation(len(edges))].tolist():
            if {i, j} <= free:
                taken.add((i, j))
                free -= {i, j}
        assert set(network.graph(n).edges) == taken
        assert nx.is_maximal_matching(graph, taken)
        assert averages_pairs(network.weights(network.key(n)).toarray())
    components = [sorted(part) for part in nx.connected_components(graph)]
    assert [group.tolist() for group in topologies.components(network)] == components


@pytest.mark.parametrize(
    ("network", "agents", "probability"),
    # Each of 9 agents meets each of 8 others in one of 9 rounds, because it is unmatched in one of 9.
    [(topologies.Matchings(9, seed=4), 9, 1 / 9), (topologies.Matchings(6, seed=4, graph=topologies.star(6)), 2, 1 / 5)],
)
def test_all_edges_are_matched_equally_often(network, agents, probability):
    rounds, size = 1000, network.agents
    places = np.triu_indices(size, 1) if agents == 9 else (np.zeros(size - 1, int), np.arange(1, size))
    matched = np.array([network.weights(n).toarray()[places] > 0 for n in range(rounds)])
    assert (matched.sum(axis=1) == agents // 2).all()
    assert abs(matched.mean(axis=0) - probability).max() < 5 * math.sqrt(probability * (1 - probability) / rounds)


def test_every_two_agents_meet_in_matchings_without_a_graph():
    network = topologies.Matchings(12)
    assert len(topologies.components(network)) == 1
    assert np.array_equal(network.union().toarray(), 1 - np.eye(12))


@pytest.mark.parametrize("agents", [2, 4, 8, 64, 1024])
def test_one_peer_exponential_graphs_of_powers_of_two_average_exactly(agents):
    network, rounds = topologies.OnePeerExponential(agents), int(math.log2(agents))
    # Integers and halves are exact in floating point.
    values = np.random.default_rng(0).integers(-1000, 1000, agents).astype(float)
    for first in (0, 1, rounds):
        mixed = values
        for n in range(first, first + rounds):
            mixed = network.weights(network.key(n)) @ mixed
        assert np.array_equal(mixed, np.full(agents, values.mean()))


@pytest.mark.parametrize("agents", [1, 2, 3, 5, 6, 7, 8, 12, 16, 40])
def test_one_peer_exponential_matrices_follow_the_definition(agents):
    network, turns = topologies.OnePeerExponential(agents), max(1, math.ceil(math.log2(agents)))
    for n in range(2 * turns + 1):
        expected = np.zeros((agents, agents))
        for i in range(agents):
            expected[i, i] += 0.5
            expected[i, (i + 2 ** (n % turns)) % agents] += 0.5
        assert np.array_equal(network.weights(network.key(n)).toarray(), expected)
        assert network.graph(n).is_directed()
    check_schedule(network, mixing="doubly stochastic")
    assert len({network.key(n) for n in range(50)}) == turns
    assert len(topologies.components(network)) == 1


MOBILE = [
    topologies.Mobile(30, 0.25, 0.05, seed=2),
    topologies.Mobile(12, 0.1, 0.7, seed=5),
    topologies.Mobile(5, 2.0, 3.5),
    topologies.Mobile(2, 0.5, 0.1),
    topologies.Mobile(1, 0.5, 0.1),
]


@pytest.mark.parametrize("network", MOBILE, ids=repr)
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


@pytest.mark.parametrize("network", MOBILE[:3], ids=repr)
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


def test_a_random_subgraph_of_no_edges_is_static():
    assert topologies.RandomEdges(nx.empty_graph(3), 0.5).static
    assert topologies.RandomEdges(nx.empty_graph(3), 0.5).key(4) == 0
    assert not topologies.RandomEdges(nx.path_graph(3), 0.5).static


RISKS = np.array([[0, 0.5, 0, 0.9], [0.5, 0, 0.125, 0], [0, 0.125, 0, 1.0], [0.9, 0, 1.0, 0]])
SQUARE = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0)])
NAMED = nx.relabel_nodes(SQUARE, dict(enumerate("abcd")))
nx.set_edge_attributes(NAMED, {("a", "b"): 0.5, ("b", "c"): 0.125, ("c", "d"): 1.0, ("d", "a"): 0.9}, "p")
SHUFFLED = pd.DataFrame(RISKS, index=list("abcd"), columns=list("abcd")).loc[list("cbda"), list("adbc")]


@pytest.mark.parametrize(
    ("graph", "probability"),
    [(NAMED, "p"), (NAMED, RISKS), (SQUARE, RISKS.tolist()), (NAMED, SHUFFLED), (SQUARE, sparse.csr_array(RISKS))],
)
def test_probabilities_of_edges_in_every_form(graph, probability):
    network = topologies.RandomEdges(graph, probability, seed=3)
    assert network == topologies.RandomEdges(graph, RISKS, seed=3)
    assert [edges(network, n) for n in range(20)] == [
        edges(topologies.RandomEdges(SQUARE, RISKS, seed=3), n) for n in range(20)
    ]
    assert np.array_equal(network.union().toarray(), nx.to_numpy_array(SQUARE))
    check_schedule(network, mixing="symmetric")


def edges(network, round):
    return set(network.graph(round).edges)


def test_each_edge_is_present_as_often_as_its_own_probability_says():
    network, rounds = topologies.RandomEdges(SQUARE, RISKS, seed=3), 2000
    shares = sum(nx.to_numpy_array(network.graph(n)) for n in range(rounds)) / rounds
    deviation = np.sqrt(RISKS * (1 - RISKS) / rounds)
    assert (abs(shares - RISKS) <= 4 * deviation).all()


def test_the_expected_matrix_of_random_edges_is_that_of_all_graphs():
    network = topologies.RandomEdges(SQUARE, RISKS, seed=8)
    edges, expected = list(SQUARE.edges), np.zeros((4, 4))
    for present in itertools.product([False, True], repeat=4):
        share = math.prod(RISKS[edge] if there else 1 - RISKS[edge] for edge, there in zip(edges, present, strict=True))
        graph = nx.empty_graph(4)
        graph.add_edges_from(itertools.compress(edges, present))
        expected += share * topologies.metropolis(graph).toarray()
    mean = sum(network.weights(n).toarray() for n in range(4000)) / 4000
    np.testing.assert_allclose(mean, expected, atol=0.02)


def test_one_probability_for_all_edges_draws_what_the_number_draws():
    same = topologies.RandomEdges(SQUARE, np.full((4, 4), 0.4), seed=5)
    number = topologies.RandomEdges(SQUARE, 0.4, seed=5)
    assert all((same.weights(n) != number.weights(n)).nnz == 0 for n in range(50))
    links = topologies.LinkFailure(topologies.Static(SQUARE), np.full((4, 4), 0.4), seed=5)
    number = topologies.LinkFailure(topologies.Static(SQUARE), 0.4, seed=5)
    assert all((links.weights(n) != number.weights(n)).nnz == 0 for n in range(50))


LOSSES = np.array([[0, 0.5, 0, 0.9], [0.25, 0, 0.125, 0], [0, 0.75, 0, 0], [0.6, 0, 0.3, 0]])  # from i to j


def test_each_message_is_lost_as_often_as_the_probability_of_its_edge_says():
    base = topologies.Static(SQUARE, weights=topologies.push)
    network = topologies.LinkFailure(base, LOSSES, seed=1, symmetric=False)
    rounds = 4000
    arrived = sum((network.weights(n).toarray() > 0).T for n in range(rounds)) / rounds  # from i to j
    wanted = np.where(nx.to_numpy_array(SQUARE) > 0, 1 - LOSSES, 0) + np.eye(4)
    assert (abs(arrived - wanted) <= 4 * np.sqrt(wanted * (1 - wanted) / rounds)).all()
    check_schedule(network, mixing="column stochastic")
    graph = network.graph(7)
    assert {(j, i) for i, j in zip(*np.nonzero(network.weights(7).toarray())) if i != j} == set(graph.edges)


def test_links_between_named_agents_fail_by_their_names():
    frame = 1 - SHUFFLED
    frame = frame.mask(frame == 1, 0).mask(frame == 0, 0)  # c - d never fails
    network = topologies.LinkFailure(topologies.Static(NAMED), frame, seed=2)
    expected = np.where(RISKS > 0, 1 - RISKS, 0)
    lost = sum(nx.to_numpy_array(SQUARE) - nx.to_numpy_array(network.graph(n)) for n in range(1500)) / 1500
    assert (abs(lost - expected) <= 4 * np.sqrt(expected * (1 - expected) / 1500)).all()
    check_schedule(network, mixing="symmetric")
    assert topologies.LinkFailure(topologies.Static(NAMED), np.zeros((4, 4))).static


test_refusals = refusals(
    (lambda: topologies.RandomEdges(SQUARE, RISKS * 2), ValueError, r"probability must be a number in \(0, 1\] on every edge"),
    (lambda: topologies.RandomEdges(SQUARE, np.triu(RISKS)), ValueError, r"on every edge; on edge \(1, 0\) it is 0"),
    (lambda: topologies.RandomEdges(SQUARE, RISKS + np.tri(4) / 99 * (RISKS < 0.9)), ValueError, "must be symmetric"),
    (lambda: topologies.RandomEdges(SQUARE, RISKS[:3]), ValueError, r"shape \(agents, agents\) = \(4, 4\); got \(3, 4\)"),
    (lambda: topologies.RandomEdges(SQUARE, "p"), ValueError, "edge .* has no attribute 'p'"),
    (lambda: topologies.RandomEdges(np.ones((3, 3)) - np.eye(3), "p"), TypeError, "graph has no edge attributes"),
    (lambda: topologies.RandomEdges(SQUARE, np.ma.masked_equal(RISKS, 0.9)), ValueError, "2 masked entries, at .0, 3."),
    (lambda: topologies.RandomEdges(SQUARE, SHUFFLED), ValueError, "must have the names of the agents, 0, 1, 2, ...; got c, b"),
    (lambda: topologies.LinkFailure(topologies.Static(SQUARE), "p"), ValueError,
     r"networkx.to_numpy_array\(graph, weight='p'\)"),
    (lambda: topologies.LinkFailure(topologies.Static(SQUARE), LOSSES), ValueError, "symmetric, or symmetric=False"),
    (lambda: topologies.LinkFailure(topologies.Static(SQUARE), RISKS), ValueError, r"in \[0, 1\) on every edge; on edge"),
)  # fmt: skip


# Links and agents that fail, in bursts, too: preserved sums, the right diagonal, what can be wrapped.

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
