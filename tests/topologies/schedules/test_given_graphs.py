"""Schedules of given graphs: static, periodic, by a function of the round; whether a schedule is static."""

import pickle
from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import topologies
from consensus.engines.stacked import StackedNetwork
from tests.helpers.every_schedule import ARCS
from tests.helpers.networks import EVENS, ODDS, growing, laplacian, push, same
from topologies.schedules import sequence


def test_static_has_the_metropolis_weights_of_its_graph_in_every_round_and_computes_them_once():
    calls = []
    graph = topologies.erdos_renyi(10, 0.3, seed=0)
    schedule = topologies.Static(graph, weights=lambda graph: calls.append(1) or topologies.metropolis(graph))
    assert {schedule.key(n) for n in range(5)} == {schedule.key(0)}
    assert same(schedule.weights(schedule.key(4)), topologies.metropolis(graph))
    assert calls == [1]
    assert schedule == topologies.Static(graph)
    assert set(schedule.graph(4).edges) == set(graph.edges)


def test_weights_functions_that_follow_the_order_of_networkx_get_the_order_of_the_agents():
    ordered, shuffled = topologies.barabasi_albert(9, 2, seed=1), nx.Graph()
    shuffled.add_nodes_from(reversed(range(9)))
    shuffled.add_edges_from(ordered.edges)
    found, expected = (topologies.Static(graph, weights=laplacian).weights(0) for graph in (shuffled, ordered))
    assert np.array_equal(found.toarray(), expected.toarray())


def test_directed_graphs_stay_directed_and_weights_run_against_the_edges():
    schedule = topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)]), weights=push)
    expected = [[1 / 3, 0, 0.5], [1 / 3, 0.5, 0], [1 / 3, 0.5, 0.5]]
    np.testing.assert_allclose(schedule.weights(0).toarray(), expected, rtol=0, atol=1e-16)
    assert schedule.graph(0).is_directed()
    assert set(schedule.graph(0).edges) == {(0, 1), (1, 2), (2, 0), (0, 2)}


def test_a_directed_matrix_gives_a_directed_graph():
    cycle = np.roll(np.eye(4), 1, axis=1)
    graph = topologies.Static(cycle, weights=lambda _: sparse.csr_array((cycle.T + np.eye(4)) / 2)).graph(0)
    assert graph.is_directed()
    assert set(graph.edges) == {(0, 1), (1, 2), (2, 3), (3, 0)}


def dense(graph):
    return topologies.metropolis(graph).toarray()


def wrong_size(graph):
    return sparse.eye_array(len(graph) + 1)


def everyone(graph):
    return sparse.csr_array(np.full((len(graph), len(graph)), 1 / len(graph)))


def broken(graph):
    return sparse.diags_array(np.full(len(graph), np.nan))


@pytest.mark.parametrize(("weights", "message"), [
    (dense, r"weights function dense must return a .* of shape \(4, 4\), got ndarray of shape \(4, 4\)"),
    (wrong_size, r"weights function wrong_size must return .* \(4, 4\), got dia_array of shape \(5, 5\)"),
    (everyone, r"weights function everyone returned nonzeros off the edges.*\(0, 2\), \(1, 3\), \(2, 0\), \.\.\. "),
    (broken, "weights function broken returned entries that are not finite"),
])  # fmt: skip
def test_weights_that_do_not_belong_to_the_graph_are_rejected(weights, message):
    ring = topologies.ring(4)
    for make in (lambda: topologies.Static(ring, weights=weights), lambda: topologies.Periodic([ring], weights=weights)):
        with pytest.raises(ValueError, match=message):
            make()


def test_weights_along_instead_of_against_directed_edges_are_rejected():
    with pytest.raises(ValueError, match=r"nonzeros off the edges of the graph: \(i, j\) = \(0, 1\) without edge j to i"):
        topologies.Static(nx.DiGraph([(0, 1)]), weights=topologies.adjacency)


@pytest.mark.parametrize(
    "turns", [[EVENS, ODDS, topologies.ring(4)], [EVENS, ODDS, EVENS], [EVENS, EVENS, ODDS], [ODDS, EVENS, EVENS]]
)
def test_periodic_takes_its_graphs_in_turn(turns):
    schedule = topologies.Periodic(turns)
    assert not schedule.static
    for n in range(7):
        assert same(schedule.weights(schedule.key(n)), topologies.metropolis(turns[n % 3]))
        assert {frozenset(edge) for edge in schedule.graph(n).edges} == {frozenset(edge) for edge in turns[n % 3].edges}
    assert [schedule.key(n) == schedule.key(0) for n in range(5)] == [True, False, False, True, False]


def test_each_round_has_the_weights_of_its_graph():
    network = topologies.Sequence(growing, agents=6)
    for n in (3, 0, 7, 3):
        assert np.array_equal(network.weights(network.key(n)).toarray(), topologies.metropolis(growing(n)).toarray())
        assert set(network.graph(n).edges) == set(growing(n).edges)
    directed = topologies.Sequence(lambda n: nx.DiGraph([(n % 3, (n + 1) % 3), (2, 1), (0, 2)]), 3, topologies.push)
    for n in range(3):
        assert directed.graph(n).is_directed()
        assert np.array_equal(directed.weights(n).toarray(), topologies.push(directed.graph(n)).toarray())


MATRICES = [np.array([[0.75, 0.25, 0], [0.25, 0.5, 0.25], [0, 0.25, 0.75]]), np.full((3, 3), 1 / 3)]


def test_mixing_matrices_take_turns_as_static_schedules():
    turns = list(map(topologies.schedule_from_matrix, MATRICES))
    for schedule in (topologies.Periodic(turns), topologies.Sequence(lambda round: turns[round % 2], agents=3)):
        for round in range(4):
            assert np.array_equal(schedule.weights(schedule.key(round)).toarray(), MATRICES[round % 2])
            assert set(schedule.graph(round).edges) == set(turns[round % 2].graph(0).edges)
    tables = [pd.DataFrame(MATRICES[0], list(names), list(names)) for names in ("abc", "bac")]
    named = [topologies.schedule_from_matrix(table) for table in tables]
    assert topologies.Periodic([named[0]] * 2).labels == ("a", "b", "c")
    with pytest.raises(ValueError, match=r"graphs\[1\] has the agents b, a, c in this order, but graphs\[0\] has a, b, c"):
        topologies.Periodic(named)


def test_the_rest_of_sums_that_are_nearly_one_goes_to_the_diagonal():
    column = np.array([[0.5, 0.333], [0.5, 0.666]])  # column-stochastic but for rounding
    for matrix in (np.full((3, 3), 1 / 3, np.float32), np.full((3, 3), 0.333), column):
        with pytest.raises(ValueError, match=r"must sum to one; .*; numpy.array\(.* gives the rest to the diagonal$") as caught:
            topologies.from_matrix(matrix)
        remedy = str(caught.value).rpartition("; ")[2].removesuffix(" gives the rest to the diagonal")
        found = topologies.schedule_from_matrix(eval(remedy, {"numpy": np, "matrix": matrix})).weights(0).toarray()
        np.testing.assert_allclose(found.sum(axis=0), 1, rtol=0, atol=1e-15)
        np.testing.assert_allclose(found, matrix, rtol=0, atol=2e-3)
    with pytest.raises(ValueError, match=r"column 1 to 3$"):
        topologies.from_matrix(np.eye(3) + nx.to_numpy_array(nx.path_graph(3)))


@pytest.mark.parametrize("kept", [5, 50])
def test_the_function_is_called_once_for_a_round_and_graphs_are_forgotten(kept, monkeypatch):
    each = topologies.Static(topologies.ring(4)).weights(0).nnz + sequence._EACH
    monkeypatch.setattr(sequence, "_KEPT", kept * each)
    asked = []
    network = topologies.Sequence(lambda n: asked.append(n) or topologies.ring(4), agents=4)
    for n in range(50):
        network.weights(network.key(n))
        network.graph(n)
        network.weights(network.key(n))
    assert asked == list(range(50))
    for n in range(50):
        network.weights(n)
    assert asked == [*range(50), *(range(50) if kept < 50 else ())]  # none of the oldest is in the cache
    for n in range(49, 49 - kept, -1):
        network.weights(n)
    assert len(asked) == (100 if kept < 50 else 50)


def test_a_copy_starts_with_an_empty_cache():
    network = topologies.Sequence(growing, agents=6)
    size = len(pickle.dumps(network))
    network.weights(4)
    assert len(pickle.dumps(network)) == size


def test_a_graph_that_the_function_changes_later_is_copied():
    graph = topologies.path(4)
    network = topologies.Sequence(lambda n: graph, agents=4)
    before = network.weights(0).toarray()
    graph.add_edge(0, 3)
    assert np.array_equal(network.weights(0).toarray(), before)
    assert not network.graph(0).has_edge(0, 3)


def test_the_union_is_that_of_the_first_rounds():
    short = topologies.Sequence(growing, agents=6, horizon=3)
    assert short.union().nnz == 4
    assert np.array_equal(topologies.Sequence(growing, agents=6).union().toarray(), nx.to_numpy_array(topologies.path(6)))
    assert [len(group) for group in topologies.components(short)] == [3, 1, 1, 1]


@pytest.mark.parametrize(("bad", "kind", "message"), [
    (topologies.ring(5), ValueError, "round 3: the graph has 5 agents, but agents=4"),
    (nx.DiGraph(topologies.ring(4)), ValueError, "round 3: .*undirected"),
    ([(0, 1)], TypeError, "round 3: graph must be a networkx.Graph"),
    (nx.Graph([(0, 0), (1, 2), (2, 3)]), ValueError, "round 3: .*self-loops"),
])  # fmt: skip
def test_errors_about_a_graph_name_its_round(bad, kind, message):
    network = topologies.Sequence(lambda n: bad if n == 3 else topologies.ring(4), agents=4)
    for n in range(3):
        network.weights(network.key(n))
    for call in (network.graph, lambda n: network.weights(network.key(n))):
        with pytest.raises(kind, match=message):
            call(3)


# Whether a schedule is static: one property, the same for solvers, conditions and checks.


GRAPH, STAR = topologies.ring(6), topologies.star(6)
RING = topologies.Static(GRAPH)
MEETINGS = [(0, 1), (1, 2)]
ONE_EDGE = nx.compose(nx.empty_graph(3), nx.Graph([(0, 2)]))


class Turning(topologies.Static):
    """A user's subclass of a static schedule that is not static."""

    def key(self, round):
        return round % 2

    def weights(self, key):
        return topologies.metropolis(GRAPH) if key == 0 else sparse.eye_array(self.agents, format="csr")


class TurningPeriodic(topologies.Periodic):
    """A user's subclass with equal graphs and changing matrices."""

    key, weights = Turning.key, Turning.weights


class Named(topologies.Static):
    """A user's subclass that only has a name of its own."""


class Own:
    """A schedule without the attribute ``static``."""

    agents = 6

    def key(self, round):
        return 0

    def weights(self, key):
        return RING.weights(0)


class OwnStatic(Own):
    static = True


STATIC = {
    "static": RING,
    "derived": Named(GRAPH),
    "matrix": topologies.schedule_from_matrix(RING.weights(0)),
    "one turn": topologies.Periodic([GRAPH]),
    "equal turns": topologies.Periodic([GRAPH, GRAPH]),
    "no failures": topologies.LinkFailure(RING, 0),
    "no failures, one way": topologies.LinkFailure(topologies.Static(ARCS, weights=topologies.push), 0.0, symmetric=False),
    "no outages": topologies.AgentFailure(RING, []),
    "away in turns": topologies.AgentFailure(RING, [(2, 0, 5), (2, 5, None)]),
    "away for good": topologies.AgentFailure(RING, [(2, 0, None)]),
    "nested": topologies.AgentFailure(topologies.LinkFailure(topologies.Periodic([GRAPH] * 3), 0.0), []),
    "sure edges": topologies.RandomEdges(GRAPH, 1),
    "one pair": topologies.Matchings(2),
    "one edge": topologies.Matchings(3, graph=ONE_EDGE),
    "exponential, two": topologies.OnePeerExponential(2),
    "base graph, two": topologies.BaseGraph(2),
    "base graph, one": topologies.BaseGraph(1),
    "shifted pairs, two": topologies.EquiDyn(2),
    "shifts, two": topologies.EquiDyn(2, symmetric=False),
    "wide radius": topologies.Mobile(5, radius=1.5, speed=0.1),
    "one window": topologies.Temporal([0, 1], MEETINGS, window=10),
    "equal windows": topologies.Temporal([0, 1, 10, 11], MEETINGS * 2, window=10),
    "own": OwnStatic(),
}
CHANGING = {
    "turning turns": TurningPeriodic([GRAPH]),
    "turning": Turning(GRAPH),
    "periodic": topologies.Periodic([GRAPH, STAR]),
    "failures": topologies.LinkFailure(RING, 0.01),
    "no failures of a changing one": topologies.LinkFailure(topologies.Periodic([GRAPH, STAR]), 0),
    "late outage": topologies.AgentFailure(RING, [(0, 1000, 1001)]),
    "early outage": topologies.AgentFailure(RING, [(0, 0, 1)]),
    "random": topologies.RandomEdges(GRAPH, 0.999),
    "matchings": topologies.Matchings(3),
    "two edges": topologies.Matchings(3, graph=topologies.path(3)),
    "base graph": topologies.BaseGraph(3),
    "shifted pairs": topologies.EquiDyn(3),
    "exponential": topologies.OnePeerExponential(3),
    "mobile": topologies.Mobile(5, radius=0.5, speed=0.1),
    "nearly the diagonal": topologies.Mobile(2, radius=1.41, speed=0.3),
    "windows": topologies.Temporal([0, 11], MEETINGS, window=10),
    "an empty window": topologies.Temporal([0, 1, 20, 21], MEETINGS * 2, window=10),
    "windows that end": topologies.Temporal([0, 1], MEETINGS, window=10, cyclic=False),
    "sequence": topologies.Sequence(lambda round: GRAPH, agents=6),
    "own": Own(),
}


@pytest.mark.parametrize(
    ("schedule", "static"), [(found, True) for found in STATIC.values()] + [(found, False) for found in CHANGING.values()]
)
def test_solvers_conditions_and_checks_read_the_same_property(schedule, static):
    assert topologies.conditions(schedule, rounds=5).static is static
    assert StackedNetwork(schedule, np.float64).static is static
    assert topologies.check(schedule, object()).conditions.static is static
    assert getattr(schedule, "static", False) is static


@pytest.mark.parametrize("name", STATIC)
def test_a_static_schedule_has_one_key_one_matrix_and_one_graph(name):
    schedule = STATIC[name]
    keys = {schedule.key(n) for n in (0, 1, 2, 7, 1000)}
    assert len(keys) == 1
    assert topologies.conditions(schedule).period == 1
    if hasattr(schedule, "graph"):
        assert all(set(a.edges) == set(b.edges) for a, b in pairwise(schedule.graph(n) for n in (0, 1, 7)))
        assert len({schedule.weights(schedule.key(n)).toarray().tobytes() for n in (0, 1, 7)}) == 1


def test_rounds_that_look_alike_do_not_make_a_schedule_static():
    shown = str(topologies.conditions(CHANGING["late outage"]))
    assert "static             no     the same in these rounds, but not marked as static" in shown
