"""Links and agents that fail: sums that survive, weights that return to the right diagonal, what can be wrapped."""

import itertools
import pickle

import networkx as nx
import numpy as np
import pytest
from failing import ARC_RING, ARCS, GRAPH, PUSHED, UNDIRECTED, sums
from scipy import sparse

import topologies


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


def test_graphs_are_directed_when_directions_fail_by_themselves_and_keep_node_attributes():
    graph = topologies.random_geometric(12, 0.5, seed=1)
    for symmetric in (True, False):
        drawn = topologies.LinkFailure(topologies.Static(graph), 0.5, symmetric=symmetric).graph(1)
        assert drawn.is_directed() is not symmetric
        assert dict(drawn.nodes(data="pos")) == dict(graph.nodes(data="pos"))
    assert topologies.LinkFailure(topologies.Static(graph), 0.0, symmetric=False).graph(1).is_directed()
    drawn = topologies.AgentFailure(topologies.Static(graph), [(0, 0, 9)]).graph(1)
    assert dict(drawn.nodes(data="pos")) == dict(graph.nodes(data="pos"))


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


@pytest.mark.parametrize(
    "make", [lambda inner: topologies.LinkFailure(inner, 0.5), lambda inner: topologies.AgentFailure(inner, [])]
)
@pytest.mark.parametrize("inner", [topologies.ring(6), np.eye(3), None])
def test_only_schedules_can_fail(make, inner):
    kind = "None" if inner is None else type(inner).__name__
    with pytest.raises(TypeError, match=rf"schedule must be a schedule, .*Static\(graph\); (.|\n)*{kind}"):
        make(inner)


def test_matrices_whose_sums_are_not_one_are_refused_at_once_unless_told_what_to_keep():
    inner = topologies.Static(topologies.path(3), weights=topologies.adjacency)
    with pytest.raises(ValueError, match=r"neither the columns nor the rows .* pass preserve='columns' or preserve='rows'"):
        topologies.LinkFailure(inner, 0.5)
    network = topologies.LinkFailure(inner, 0.5, preserve="columns")
    for n in range(10):
        assert np.array_equal(sums(network.weights(network.key(n)), 0), [1, 2, 1])
