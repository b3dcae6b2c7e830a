"""All schedules: what they give each round, random access, equality, travel between processes."""

import pickle

import networkx as nx
import numpy as np
import pytest
from networks import EVENS, ODDS, laplacian, push, same

import topologies
from consensus.testing import check_schedule

DIRECTED = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])
CONTACTS = ([0, 3, 12, 15, 31, 44], [(0, 1), (1, 2), (0, 1), (2, 3), (3, 4), (0, 4)])
SCHEDULES = {
    "static": lambda: topologies.Static(topologies.star(6)),
    "directed": lambda: topologies.Static(DIRECTED, weights=push),
    "periodic": lambda: topologies.Periodic([EVENS, ODDS, topologies.ring(4)]),
    "random": lambda: topologies.RandomEdges(topologies.grid(4, 5), 0.4, seed=3),
    "matchings": lambda: topologies.Matchings(6, seed=1),
    "matchings of a graph": lambda: topologies.Matchings(7, seed=1, graph=topologies.star(7)),
    "one peer": lambda: topologies.OnePeerExponential(6),
    "links": lambda: topologies.LinkFailure(topologies.Static(topologies.star(6)), 0.5, seed=2),
    "links of random edges": lambda: topologies.LinkFailure(topologies.RandomEdges(EVENS, 0.5, seed=2), 0.5, seed=2),
    "directed links": lambda: topologies.LinkFailure(topologies.Static(DIRECTED, weights=push), 0.3, symmetric=False),
    "one-way links": lambda: topologies.LinkFailure(topologies.Static(topologies.ring(5)), 0.3, symmetric=False),
    "agents": lambda: topologies.AgentFailure(topologies.Periodic([EVENS, ODDS]), [(1, 3, 30), (3, 5, 20)]),
    "directed agents": lambda: topologies.AgentFailure(topologies.Static(DIRECTED, weights=push), [(1, 3, 5)]),
    "mobile": lambda: topologies.Mobile(6, 0.5, 0.3, seed=1),
    "sequence": lambda: topologies.Sequence(handshakes, agents=5),
    "temporal": lambda: topologies.Temporal(*CONTACTS, window=10),
}


def handshakes(round):
    graph = nx.empty_graph(5)
    graph.add_edges_from({(round % 5, (round + 1) % 5), (0, 2)})
    return graph


@pytest.fixture(params=SCHEDULES)
def make(request):
    return SCHEDULES[request.param]


def test_it_keeps_the_contract(make):
    schedule = make()
    check_schedule(schedule, rounds=10)
    copy = pickle.loads(pickle.dumps(schedule))
    assert copy == schedule
    assert hash(copy) == hash(schedule)
    for n in range(7):
        assert schedule.weights(schedule.key(n)).has_canonical_format
        assert (schedule.weights(schedule.key(n)).diagonal() > 0).all()


def test_the_union_holds_every_edge_of_every_round(make):
    schedule = make()
    union = schedule.union()
    assert union.format == "csr"
    seen = sum(nx.to_numpy_array(schedule.graph(n)) for n in range(60)) > 0
    assert np.array_equal(union.toarray() != 0, seen)


def test_schedules_are_equal_when_made_alike_and_only_then():
    for name, make in SCHEDULES.items():
        assert make() == make()
        assert all(make() != other() for different, other in SCHEDULES.items() if different != name)
    ring = topologies.ring(6)
    assert topologies.Static(ring) != topologies.Static(topologies.path(6))
    assert topologies.Static(ring) != topologies.Static(ring, weights=laplacian)
    assert topologies.Static(ring) == topologies.Static(nx.to_scipy_sparse_array(ring))
    assert topologies.RandomEdges(ring, 0.5, seed=1) != topologies.RandomEdges(ring, 0.5, seed=2)
    assert topologies.RandomEdges(ring, 0.5, seed=1) != topologies.RandomEdges(ring, 0.6, seed=1)
    assert topologies.Periodic([EVENS, ODDS]) != topologies.Periodic([ODDS, EVENS])


def test_changing_a_graph_given_or_taken_does_not_change_the_schedule():
    graph = topologies.path(4)
    schedules = [topologies.Static(graph), topologies.RandomEdges(graph, 1.0)]
    graph.add_edge(0, 3)
    for schedule in schedules:
        schedule.graph(0).add_edge(0, 2)
        assert set(schedule.graph(0).edges) == {(0, 1), (1, 2), (2, 3)}


@pytest.mark.parametrize(
    ("schedule", "shown"),
    [
        (topologies.Static(topologies.ring(6)), "Static(agents=6, edges=6, weights=metropolis)"),
        (topologies.Static(nx.DiGraph([(0, 1), (1, 2)]), weights=push), "Static(agents=3, edges=2, weights=push)"),
        (topologies.Periodic([EVENS, ODDS]), "Periodic(agents=4, period=2, edges=[2, 2], weights=metropolis)"),
        (
            topologies.Periodic([EVENS] * 9),
            "Periodic(agents=4, period=9, edges=[2, 2, 2, 2, ...], weights=metropolis)",
        ),
        (
            topologies.RandomEdges(topologies.ring(6), 0.5, seed=2),
            "RandomEdges(agents=6, edges=6, probability=0.5, seed=2)",
        ),
    ],
)
def test_repr_is_short_and_says_the_settings(schedule, shown):
    assert repr(schedule) == shown


@pytest.mark.parametrize("graph", [topologies.path(1), nx.empty_graph(4)])
def test_agents_without_edges_keep_what_they_have(graph):
    for schedule in (topologies.Static(graph), topologies.RandomEdges(graph, 0.5)):
        assert np.array_equal(schedule.weights(schedule.key(0)).toarray(), np.eye(len(graph)))
        assert schedule.union().nnz == 0


def test_rounds_in_any_order_are_those_in_sequence(make):
    one, other = make(), make()
    sequence = [one.weights(one.key(n)) for n in range(40)]
    for n in np.random.default_rng(0).permutation(40).tolist():
        assert same(other.weights(other.key(n)), sequence[n])
        assert same(other.weights(other.key(np.int64(n))), sequence[n])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "matchings", "matchings of a graph", "links", "mobile"])
def test_round_ten_thousand_is_that_of_a_run_from_the_start(name):
    one, other = SCHEDULES[name](), SCHEDULES[name]()
    for n in range(10_001):
        matrix = one.weights(one.key(n))
    assert same(matrix, other.weights(other.key(10_000)))
    assert not all(same(matrix, other.weights(other.key(n))) for n in range(20))


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name not in ("static", "directed")])
def test_negative_rounds_are_refused(name):
    with pytest.raises(ValueError, match="round must be at least 0, got -1"):
        SCHEDULES[name]().key(-1)
