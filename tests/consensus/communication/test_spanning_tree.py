"""Sums along a spanning tree: exact, the same for all, and counted edge by edge."""

import math
from types import SimpleNamespace
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.communication import Messages
from consensus.communication.plans import Plans
from consensus.communication.states import flatten, rebuild
from consensus.compression import IntegerRows, Sparse
from consensus.engines.rank_engine import HaloNetwork
from consensus.engines.stacked import StackedNetwork
from consensus.workers.blocks import blocks_of
from tests.helpers import engine_cases
from tests.helpers.engine_harness import on_ranks
from tests.helpers.ranks_on_threads import assert_bits_of_one_process, crossing_bytes
from tests.helpers.ranks_on_threads import together as ranks_together
from tests.helpers.refusals import refusals
from tests.helpers.turns import in_turn

GRAPHS = {
    "path": topologies.path(7),
    "star": topologies.star(6),
    "random": topologies.erdos_renyi(12, 0.3, seed=1),
    "torus": topologies.torus(4, 5),
    "one agent": nx.empty_graph(1),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_tree_has_the_shortest_ways_from_the_centre(name):
    graph = GRAPHS[name]
    tree, far = StackedNetwork(topologies.Static(graph), np.float64).tree, nx.eccentricity(graph)
    centre = tree.root
    assert (tree.depth, centre) == min((far[agent], agent) for agent in graph)
    away = nx.single_source_shortest_path_length(graph, centre)
    for agent in set(graph) - {centre}:
        assert graph.has_edge(agent, int(tree.parent[agent]))
        assert away[agent] == away[int(tree.parent[agent])] + 1


def test_without_links_both_ways_or_between_all_there_is_none():
    circle = topologies.Static(nx.DiGraph([(k, (k + 1) % 4) for k in range(4)]), weights=topologies.push)
    with pytest.raises(ValueError, match="needs an undirected, connected graph, and this one is directed"):
        _ = StackedNetwork(circle, np.float64).tree
    with pytest.raises(ValueError, match="this one is not connected"):
        _ = StackedNetwork(topologies.Static(nx.Graph([(0, 1), (2, 3)])), np.float64).tree


@pytest.mark.parametrize("name", GRAPHS)
def test_all_agents_get_the_sum_in_two_messages_an_edge_of_the_tree(name):
    graph = GRAPHS[name]
    A, n = len(graph), 5
    network = StackedNetwork(topologies.Static(graph), np.float32)  # sums are in float64 all the same
    tree, rows = network.tree, np.random.default_rng(A).integers(-(10**9), 10**9, (A, n)).astype(float)
    up = tree.reduce(rows)
    far = nx.eccentricity(graph)
    assert (tree.depth, tree.root) == min((far[agent], agent) for agent in graph)
    np.testing.assert_array_equal(up[tree.root], rows.sum(axis=0))
    assert (network.exchanges, network.messages, network.floats, network.bytes) == (
        tree.depth,
        A - 1,
        (A - 1) * n,
        (A - 1) * n * 8,
    )
    down = tree.broadcast(up, SimpleNamespace(sizes=lambda sums: np.full(len(sums), 3)))
    np.testing.assert_array_equal(down, np.tile(rows.sum(axis=0), (A, 1)))
    assert (network.exchanges, network.messages, network.bytes) == (2 * tree.depth, 2 * (A - 1), (A - 1) * n * 8 + (A - 1) * 3)


class Overwritten(StackedNetwork):
    """Blocks are written over as soon as the next is asked for, as by a faster worker where one at a time finds room."""

    def _gather(self, plan, blocks):
        for block in blocks:
            whole = block.copy()
            yield whole
            whole[:] = np.nan


def test_messages_of_a_codec_and_their_sizes_may_share_memory_in_turn():
    schedule, codec = topologies.Static(GRAPHS["torus"]), IntegerRows(3, floats=1)
    rows = np.hstack([np.full((20, 1), 0.1), np.arange(60.0).reshape(20, 3)])
    whole, network = StackedNetwork(schedule, np.float64), Overwritten(schedule, np.float64)
    np.testing.assert_array_equal(network.tree.reduce(rows, codec), whole.tree.reduce(rows, codec))
    np.testing.assert_array_equal(network.tree.broadcast(rows, codec), whole.tree.broadcast(rows, codec))
    assert network.counts == whole.counts


def test_zeros_of_sums_with_a_codec_have_no_sign():
    """A codec may drop it: a sum that is not sent, as of a single agent, would keep it."""
    for graph in (nx.empty_graph(1), topologies.path(3)):
        tree, codec = StackedNetwork(topologies.Static(graph), np.float64).tree, IntegerRows(2)
        rows = np.full((len(graph), 2), -0.0)
        assert not np.signbit(tree.reduce(rows, codec)).any()
        assert not np.signbit(tree.broadcast(rows, codec)).any()
        assert np.signbit(rows).all()


def test_integers_are_counted_if_they_are_to_be():
    network = StackedNetwork(topologies.Static(topologies.path(3)), np.float64)
    tree, rows = network.tree, np.arange(6, dtype=np.uint64).reshape(3, 2)
    before = network.counts
    np.testing.assert_array_equal(
        tree.broadcast_integers(tree.reduce_integers(rows, counted=False), counted=False), [[6, 9]] * 3
    )
    assert network.counts == before
    tree.reduce_integers(rows)
    assert network.counts["messages"] - before["messages"] == 2
    assert network.counts["bytes"] - before["bytes"] == 2 * 2 * 8


def test_a_partial_sum_is_measured_where_it_is_sent():
    """On a path of five the ends send one row, their neighbours sums of two."""
    network = StackedNetwork(topologies.Static(topologies.path(5)), np.float64)
    rows, seen = np.arange(5.0)[:, None], []

    def size(sums):
        seen.append(sums[:, 0].tolist())
        return np.abs(sums[:, 0]).astype(int)

    network.tree.reduce(rows, SimpleNamespace(sizes=size))
    assert seen == [[0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 7.0, 4.0]]
    assert network.bytes == 0 + 4 + 1 + 7
    assert network.traffic.tolist() == [0, 0 + 1, 1 + 7, 7 + 4, 4]  # what each sent and received


def test_finding_the_tree_takes_as_many_exchanges_as_the_diameter():
    network = StackedNetwork(topologies.Static(topologies.path(5)), np.float64)
    network.tree.discover()
    assert (network.exchanges, network.messages, network.bytes) == (4, 4 * 8, 4 * 8 * 8)  # a word says it for up to 64 agents
    many = StackedNetwork(topologies.Static(topologies.star(65)), np.float64)
    many.tree.discover()
    assert (many.exchanges, many.messages, many.bytes) == (2, 2 * 128, 2 * 128 * 16)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize(("solver", "name"), in_turn(engine_cases.TREE_SOLVERS, engine_cases.TREES), ids=repr)
def test_ranks_send_the_bytes_that_are_counted(name, solver, ranks):
    """On a path to the byte; elsewhere a row goes once to a rank on which several agents receive it."""
    p, network = engine_cases.problem("logistic", consensus.L2(0.02)), engine_cases.TREES[name]
    wire = assert_bits_of_one_process(p, network, solver, ranks, rounds=12)
    counted = crossing_bytes(p, network, solver, ranks, rounds=12)
    assert 0 < wire <= counted
    if name == "path":
        assert wire == counted


def test_sums_of_a_diverging_run_have_the_same_bits_on_ranks():
    """NaN, infinity, integers that are too large, and zeros of either sign."""
    schedule, blocks, codec = topologies.Static(topologies.path(7)), blocks_of(7, 3), IntegerRows(40, floats=1)
    rows = np.rint(np.random.default_rng(0).standard_normal((7, 41)) * 10)
    rows[:, 3] = -0.0
    rows[2, 5], rows[4, 20], rows[6, 36], rows[0, 0] = np.nan, -np.inf, 1e300, np.inf

    def summed(network):
        up = network.tree.reduce(rows[network.rows], codec)
        return np.stack([up, network.tree.broadcast(up, codec)])

    def on_rank(ranks):
        return summed(HaloNetwork(schedule, blocks[ranks.me], np.dtype(float), False, ranks, blocks))

    found = np.concatenate(ranks_together(3, on_rank), axis=1)
    assert found.tobytes() == summed(StackedNetwork(schedule, np.float64)).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "ranks"), [("mpi", 2), ("torch", 3)])
def test_processes_send_the_bytes_that_are_counted(tmp_path, kind, ranks):
    """Three numbers a message, up and down, and runs of solvers: of edges between ranks alone."""
    agents, parent = engine_cases.AGENTS, StackedNetwork(engine_cases.NETWORKS["static"], np.float64).tree.parent
    rank = np.repeat(np.arange(ranks), [rows.stop - rows.start for rows in blocks_of(agents, ranks)])
    up = sum(rank[agent] != rank[above] for agent, above in enumerate(parent) if above >= 0)
    down = len({(above, rank[agent]) for agent, above in enumerate(parent) if above >= 0 and rank[agent] != rank[above]})
    messages = 2 * (agents - 1)
    three, runs = on_ranks(ranks, "summed", tmp_path, kind)
    assert three == [24 * (up + down), messages, 3 * messages, 24 * messages]
    p = engine_cases.grid()["DGD, static, equal"].problem
    for (name, network), sent in zip(engine_cases.TREES.items(), runs, strict=True):
        counted = [crossing_bytes(p, network, solver, ranks, rounds=12) for solver in engine_cases.TREE_SOLVERS]
        assert min(sent) > 0
        assert sent == counted if name == "path" else all(np.less_equal(sent, counted))


# How news crosses a network, and what the numbers that carry it cost.

PATH = topologies.Static(topologies.path(3))
ARCS = topologies.Static(nx.DiGraph([(k, (k + 1) % 5) for k in range(5)]), weights=topologies.push)
AWAY = topologies.AgentFailure(topologies.Static(topologies.complete(10)), [(agent, 0, 1) for agent in range(1, 10)])


def half(edge):
    graph = nx.empty_graph(3)
    graph.add_edge(*edge)
    return graph


# The edge between 0 and 1 is up in even rounds, that between 1 and 2 in odd ones.
TURNS = topologies.Periodic([half((0, 1)), half((1, 2))])


@pytest.mark.parametrize(
    ("schedule", "round", "exchanges"), [(PATH, 0, 2), (ARCS, 0, 4), (AWAY, 0, 2), (AWAY, 1, 1), (TURNS, 0, 3), (TURNS, 1, 3)]
)
def test_news_crosses_the_graphs_of_the_rounds_as_they_are(schedule, round, exchanges):
    network = StackedNetwork(schedule, np.float64)
    assert network.flooding.diameter(round) == exchanges
    assert network.floats == 0


def test_numbers_beside_an_exchange_are_counted():
    network = StackedNetwork(AWAY, np.float32)
    network.mix(0, np.ones((10, 2), np.float32), beside=5)
    assert network.floats == 0
    network.mix(1, np.ones((10, 2), np.float32), beside=5)
    assert network.messages == 90
    assert network.counts["bytes"] == 90 * (2 + 5) * 4


def test_words_of_a_bit_for_each_agent():
    """64 agents fit into a double, 32 into a single."""
    for dtype, bits in ((np.float64, 64), (np.float32, 32)):
        for agents in (1, 2, bits, bits + 1, 2 * bits, 2 * bits + 1):
            network = StackedNetwork(topologies.Static(topologies.path(agents)), dtype)
            assert network.flooding.words == math.ceil(agents / bits)


def test_a_least_value_and_what_goes_beside_it_are_counted():
    network = StackedNetwork(PATH, np.float64)
    assert network.flooding.minimum(0, 3, np.array([3.0, 1.0, 2.0]), beside=4) == 1.0
    assert (network.exchanges, network.messages, network.floats, network.bytes) == (3, 3 * 4, 5 * 3 * 4, 8 * 5 * 3 * 4)
    assert network.traffic.tolist() == [8 * 5 * 3 * moved for moved in (2, 4, 2)]


def test_all_say_yes_only_if_everyone_does():
    network = StackedNetwork(PATH, np.float32)
    assert network.flooding.all(np.array([True, True, True]))
    assert not network.flooding.all(np.array([True, False, True]))
    assert network.exchanges == network.bytes == 0  # the caller counts it


# Nested states, made flat and put together again.


class Inner(NamedTuple):
    """A part with a state of its own."""

    a: object
    b: object


class Empty(NamedTuple):
    """A part that remembers nothing."""


class Outer(NamedTuple):
    """A state."""

    round: int
    w: np.ndarray
    first: object
    second: object


STATE = Outer(3, np.ones((2, 1)), Inner(Inner(1.0, np.arange(2)), Empty()), (4, 5))


def test_names_are_paths_and_values_are_not_copied():
    flat = flatten(STATE)
    assert list(flat) == ["round", "w", "first.a.a", "first.a.b", "second"]
    assert flat["w"] is STATE.w
    assert flat["first.a.b"] is STATE.first.a.b
    assert flat["second"] == (4, 5)  # a tuple without names is one value


def test_rebuilt_is_the_same():
    template = Outer(0, 0, Inner(Inner(0, 0), Empty()), 0)
    again = rebuild(template, dict(reversed(flatten(STATE).items())))
    assert again == STATE
    assert type(again.first.a) is Inner
    assert type(again.first.b) is Empty


test_refusals = refusals(
    (lambda: rebuild(STATE, {"first": 1, **{name: flatten(STATE)[name] for name in ("round", "w", "second")}}), ValueError,
     r"another version of the solver: Outer there lacks first\.a\.a, first\.a\.b and has also first$"),
    (lambda: rebuild(STATE, flatten(STATE) | {"V": 1}), ValueError, r"there has also V$"),
)  # fmt: skip


# What agents hear message by message is what they mix, and counts as that. ``engine_cases`` has it on all engines.

RNG = np.random.default_rng(0)
SCHEDULES = {**engine_cases.NETWORKS, "directed": topologies.Static(engine_cases.GRAPH.to_directed(), weights=topologies.push)}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_heard_mixes_to_what_mix_gives(name, dtype):
    schedule = SCHEDULES[name]
    one, other = StackedNetwork(schedule, dtype, strict=True), StackedNetwork(schedule, dtype, strict=True)
    blocks = RNG.standard_normal((7, 5)), RNG.standard_normal(7), RNG.standard_normal((7, 2, 3))
    packed = Sparse.largest(RNG.standard_normal((7, 6)).astype(dtype), 2)
    for round in range(3):
        mixed = other.mix(round, *blocks[:2], packed, beside=2)
        found = one.aggregate(round, lambda heard: heard.mixed(), *blocks[:2], packed, beside=2)
        for ours, theirs in zip(found, mixed, strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=8 * np.finfo(dtype).eps)
        (whole,) = one.aggregate(round, lambda heard: heard.mixed(), blocks[2])
        (flat,) = other.mix(round, blocks[2].reshape(7, 6))
        np.testing.assert_allclose(whole.reshape(7, 6), flat, rtol=0, atol=8 * np.finfo(dtype).eps)
    assert one.counts == other.counts
    assert one.record == other.record


def test_every_message_is_there_with_its_sender_receiver_and_weight():
    schedule, x = SCHEDULES["static"], RNG.standard_normal((7, 5))
    dense = schedule.weights(0).toarray()

    def rule(heard):
        pairs = list(zip(heard.receivers.tolist(), heard.senders.tolist(), strict=True))
        assert pairs == [(i, j) for i in range(7) for j in range(7) if i != j and dense[i, j]]
        np.testing.assert_array_equal(heard.weights, [dense[pair] for pair in pairs])
        np.testing.assert_array_equal(heard.own_weights, dense.diagonal())
        np.testing.assert_array_equal(heard.rows[heard.sources], x[heard.senders])
        np.testing.assert_array_equal(heard.differences(), x[heard.senders] - x[heard.receivers])
        return 2 * heard.own

    np.testing.assert_array_equal(StackedNetwork(schedule, float).aggregate(0, rule, x)[0], 2 * x)


@pytest.mark.parametrize("rows", [slice(2, 5), slice(5, 7)])
def test_a_block_knows_its_agents_from_their_neighbours(rows):
    schedule, x = SCHEDULES["static"], RNG.standard_normal((7, 5))
    dense, own = schedule.weights(0).toarray(), np.arange(rows.start, rows.stop)
    plan = Plans(schedule, rows, np.dtype(float), lambda whole, matrix: (matrix, None)).at(0, "mix")
    heard = Messages.of(plan, rows, x, x[rows])
    np.testing.assert_array_equal(heard.own_weights, dense.diagonal()[rows])
    pairs = list(zip(own[heard.receivers].tolist(), heard.senders.tolist(), strict=True))
    assert pairs == [(i, j) for i in own.tolist() for j in range(7) if i != j and dense[i, j]]
    np.testing.assert_allclose(heard.mixed(), dense[rows] @ x, atol=1e-14)
