"""Laws of all schedules, also under failures and for random graphs: the contract, unions, equality, copies, random access."""

import itertools
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from consensus.testing import check_schedule
from tests.helpers.every_schedule import DIRECTED, UNDIRECTED, column_stochastic, symmetric
from tests.helpers.networks import EVENS, ODDS, growing, laplacian, push, same

EXAMPLES, ALIKE = (symmetric() | column_stochastic() for _ in range(2))
SYMMETRIC = symmetric().keys()
RING, PATH = topologies.ring(6), topologies.path(6)
STATIC = topologies.Static(RING)
TIMES, CONTACTS = [40, 0, 59.9, 20, 100], [(2, 0), (0, 1), (1, 0), (1, 2), (3, 0)]


# No two are equal; a few are given with their repr.
DIFFERENT = [
    (STATIC, "Static(agents=6, edges=6, weights=metropolis)"),
    (topologies.Static(nx.DiGraph([(0, 1), (1, 2)]), weights=push), "Static(agents=3, edges=2, weights=push)"),
    (topologies.Periodic([EVENS, ODDS]), "Periodic(agents=4, period=2, edges=[2, 2], weights=metropolis)"),
    (topologies.Periodic([EVENS] * 9), "Periodic(agents=4, period=9, edges=[2, 2, 2, 2, ...], weights=metropolis)"),
    (topologies.Sequence(growing, 6), "Sequence(growing, agents=6, weights=metropolis)"),
    (topologies.RandomEdges(RING, 0.5, seed=2), "RandomEdges(agents=6, edges=6, probability=0.5, seed=2)"),
    (topologies.Matchings(6, seed=1), "Matchings(agents=6, seed=1)"),
    (topologies.Matchings(6, graph=RING), "Matchings(agents=6, edges=6, seed=0)"),
    (topologies.OnePeerExponential(6), "OnePeerExponential(agents=6)"),
    (topologies.BaseGraph(6), "BaseGraph(agents=6, peers=1)"),
    (topologies.SimpleBaseGraph(6, 2), "SimpleBaseGraph(agents=6, peers=2)"),
    (topologies.HyperHypercube(6, peers=2), "HyperHypercube(agents=6, peers=2)"),
    (topologies.EquiStatic(6, 2), "EquiStatic(agents=6, shifts=2, seed=0, symmetric=True)"),
    (topologies.EquiDyn(6, 1, symmetric=False), "EquiDyn(agents=6, seed=1, symmetric=False)"),
    *[(topologies.BaseGraph(*made), None) for made in ((7,), (6, 2))],
    *[(topologies.EquiDyn(*made), None) for made in ((6, 1), (6, 2), (7, 1))],
    (topologies.Mobile(10, 0.3, 0.1, seed=4), "Mobile(agents=10, radius=0.3, speed=0.1, seed=4)"),
    (topologies.Temporal(TIMES, CONTACTS, 20), "Temporal(agents=4, edges=4, rounds=6, window=20.0, cyclic=True)"),
    (topologies.LinkFailure(STATIC, 0.5), f"LinkFailure({STATIC}, probability=0.5, seed=0, symmetric=True)"),
    (topologies.LinkFailure(STATIC, 0.5, preserve="rows"),
     f"LinkFailure({STATIC}, probability=0.5, seed=0, symmetric=True, preserve='rows')"),
    (topologies.AgentFailure(STATIC, [(0, 1, 2)], "rows"), f"AgentFailure({STATIC}, outages=[(0, 1, 2)], preserve='rows')"),
    (topologies.AgentFailure(STATIC, [(0, n, None) for n in range(9)]),
     f"AgentFailure({STATIC}, outages=[(0, 0, None), (0, 1, None), (0, 2, None), (0, 3, None), ...])"),
    *[(topologies.Static(PATH, weights=rule), None) for rule in (topologies.metropolis, laplacian)],
    (topologies.Periodic([ODDS, EVENS]), None),
    (topologies.Sequence(growing, 6, topologies.push), None),
    *[(topologies.RandomEdges(RING, probability, seed=1), None) for probability in (0.5, 0.6)],
    *[(made, None) for made in (topologies.Matchings(6), topologies.Matchings(7), topologies.Matchings(6, graph=PATH))],
    (topologies.OnePeerExponential(7), None),
    *[
        (topologies.Mobile(*made), None)
        for made in ((11, 0.3, 0.1, 4), (10, 0.4, 0.1, 4), (10, 0.3, 0.2, 4), (10, 0.3, 0.1, 5))
    ],
    *[(topologies.Temporal(TIMES, CONTACTS, *made), None) for made in ((20, None, False), (21,), (20, None, True, "abcd"))],
    *[(topologies.LinkFailure(STATIC, *made), None) for made in ((0.4,), (0.5, 1), (0.5, 0, False))],
    *[(topologies.AgentFailure(STATIC, [(0, 1, last)]), None) for last in (2, 3)],
]  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_schedules_keep_the_contract_and_give_the_same_bits_in_any_order(name):
    schedule = EXAMPLES[name]
    check_schedule(schedule, 10, mixing="symmetric" if name in SYMMETRIC else "column stochastic")
    matrices = [schedule.weights(schedule.key(n)) for n in range(40)]
    for n in np.random.default_rng(0).permutation(40):
        other = ALIKE[name] if n % 10 == 0 else schedule
        assert same(other.weights(other.key(n)), matrices[n])
        assert matrices[n].has_canonical_format
        assert name == "no self-weights" or (matrices[n].diagonal() > 0).all()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_union_has_every_edge_of_every_round(name):
    union = EXAMPLES[name].union()
    assert union.format == "csr"
    seen = sum(nx.to_numpy_array(EXAMPLES[name].graph(n)) for n in range(60)) > 0
    assert np.array_equal(union.toarray() != 0, seen)


def test_schedules_are_equal_if_and_only_if_they_are_made_alike():
    made = [schedule for schedule, _ in DIFFERENT]
    assert all(one != other for one, other in itertools.combinations(made, 2))
    assert ALIKE == EXAMPLES
    assert topologies.Static(RING) == topologies.Static(nx.to_scipy_sparse_array(RING))
    assert topologies.Matchings(6, graph=RING) == topologies.Matchings(6, graph=nx.to_numpy_array(RING))
    order = np.random.default_rng(0).permutation(len(TIMES))
    shuffled = np.array(TIMES)[order], np.array(CONTACTS)[order][:, ::-1]
    assert topologies.Temporal(TIMES, CONTACTS, 20) == topologies.Temporal(*shuffled, 20)


@pytest.mark.parametrize(("schedule", "shown"), DIFFERENT)
def test_copies_are_equal_and_repr_shows_the_settings(schedule, shown):
    schedule.weights(schedule.key(1))
    copy = pickle.loads(pickle.dumps(schedule))
    assert copy == schedule
    assert hash(copy) == hash(schedule)
    assert same(copy.weights(copy.key(5)), schedule.weights(schedule.key(5)))
    assert shown is None or repr(schedule) == shown


def test_changing_a_graph_that_was_passed_or_returned_does_not_change_the_schedule():
    graph = topologies.path(4)
    schedules = [topologies.Static(graph), topologies.RandomEdges(graph, 1.0)]
    graph.add_edge(0, 3)
    for schedule in schedules:
        schedule.graph(0).add_edge(0, 2)
        assert set(schedule.graph(0).edges) == {(0, 1), (1, 2), (2, 3)}


@pytest.mark.parametrize("graph", [topologies.path(1), nx.empty_graph(4)])
def test_agents_without_edges_keep_their_values(graph):
    for schedule in (topologies.Static(graph), topologies.RandomEdges(graph, 0.5)):
        assert np.array_equal(schedule.weights(schedule.key(0)).toarray(), np.eye(len(graph)))
        assert schedule.union().nnz == 0


def test_graphs_keep_node_attributes():
    graph = nx.Graph()
    graph.add_node("b", pos=(0.0, 1.0))
    graph.add_node("a", pos=(2.0, 3.0))
    graph.add_edge("a", "b")
    static = topologies.Static(graph)
    for schedule in (
        static,
        topologies.RandomEdges(graph, 0.5),
        topologies.Sequence(lambda n: graph, agents=2),
        topologies.LinkFailure(static, 0.5),
        topologies.LinkFailure(static, 0.5, symmetric=False),
        topologies.AgentFailure(static, [(0, 0, 9)]),
    ):
        assert dict(schedule.graph(2).nodes(data="pos")) == {0: (0.0, 1.0), 1: (2.0, 3.0)}


@pytest.mark.parametrize("name", [name for name, found in EXAMPLES.items() if not isinstance(found, topologies.Static)])
def test_negative_rounds_are_rejected(name):
    with pytest.raises(ValueError, match="round must be at least 0, got -1"):
        EXAMPLES[name].key(-1)


def test_rounds_draw_different_edges_for_every_seed_and_not_the_plain_stream():
    for make in (
        lambda seed: topologies.RandomEdges(topologies.complete(20), 0.5, seed),
        lambda seed: topologies.Matchings(20, seed),
        lambda seed: topologies.LinkFailure(topologies.Static(topologies.complete(20)), 0.5, seed),
    ):
        drawn = {frozenset(make(seed).graph(n).edges) for seed in (0, 1, 2, 2**32, 2**32 + 1) for n in (0, 1, 2, 2**32)}
        assert len(drawn) == 20
    edges = np.array(topologies.complete(20).edges)
    for plain in (np.random.default_rng(4), np.random.default_rng([4, 0])):
        kept = edges[plain.random(190) < 0.5].tolist()
        assert set(topologies.RandomEdges(topologies.complete(20), 0.5, seed=4).graph(0).edges) != set(map(tuple, kept))


FIXED = settings(max_examples=25, deadline=None, derandomize=True, database=None)
SEEDS, PROBABILITIES = st.integers(0, 2**70), st.floats(0, 0.99)
GRAPHS = st.builds(nx.gnp_random_graph, st.integers(2, 12), st.floats(0, 1), seed=st.integers(0, 1000))


@st.composite
def outages(draw, agents):
    firsts = draw(st.lists(st.tuples(st.integers(0, agents - 1), st.integers(0, 40)), max_size=5))
    return [(agent, first, draw(st.none() | st.integers(first + 1, first + 20))) for agent, first in firsts]


def check(networks, mixing, data):
    for network in networks:
        check_schedule(network, 6, mixing=mixing)
        assert network.weights(network.key(data.draw(st.integers(0, 2**40)))).min() >= 0


@pytest.mark.slow
@pytest.mark.parametrize("name", UNDIRECTED)
@FIXED
@given(st.data(), GRAPHS, SEEDS, PROBABILITIES)
def test_undirected_schedules_are_symmetric_and_stay_so_under_failures(name, data, graph, seed, probability):
    inner = UNDIRECTED[name](graph, seed)
    absent = topologies.AgentFailure(inner, data.draw(outages(inner.agents)))
    failing = topologies.LinkFailure(inner, probability, seed)
    both = topologies.LinkFailure(absent, probability, seed), topologies.AgentFailure(failing, absent.outages)
    check((inner, absent, failing, *both), "symmetric", data)


@pytest.mark.slow
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("preserve", ["columns", "rows"])
@pytest.mark.parametrize("name", DIRECTED)
@FIXED
@given(st.data(), GRAPHS, SEEDS, PROBABILITIES)
def test_directed_schedules_keep_the_sums_of_columns_or_rows(name, preserve, symmetric, data, graph, seed, probability):
    inner = DIRECTED[name](graph, seed, topologies.push if preserve == "columns" else topologies.pull)
    absent = topologies.AgentFailure(inner, data.draw(outages(inner.agents)), preserve)
    failing = [topologies.LinkFailure(one, probability, seed, symmetric, preserve) for one in (inner, absent)]
    check((inner, absent, *failing), f"{preserve.removesuffix('s')} stochastic", data)
