"""What each agent sends and receives: by hand on trees, and how what all ranks collect travels."""

import itertools
from collections import defaultdict, deque
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.asynchronous.post import ANSWER, COUNT, MAIL, ORDER
from consensus.asynchronous.torch_ranks import LEAVES, TAKEN
from consensus.compression import Quantize, Quantized, Sparse, TopK
from consensus.engines import Engine, StackedNetwork, reports, run_rounds
from consensus.engines.ranks import routes
from consensus.engines.transport import COLLECTED, MIXED, NOTES, UNEVEN, LostRank
from consensus.frameworks.ahead import _AHEAD, _MOST, Ahead, Sizes
from consensus.robust import NNA
from consensus.solvers import (
    BEER,
    DGD,
    SGP,
    AdaptiveNEXT,
    Gossip,
    GradientTracking,
    PowerGossip,
    RelaySGD,
    TreeLBFGS,
    TreeNewton,
)
from consensus.workers.blocks import blocks_of
from tests.helpers import engine_cases
from tests.helpers.engine_harness import on_ranks
from tests.helpers.turns import with_slow


def test_by_hand_on_a_path():
    """Of three agents the middle one is the root: it receives two rows and sends two sums, in double precision."""
    net = StackedNetwork(topologies.Static(topologies.path(3)), np.float32)
    tree = net.tree
    tree.broadcast(tree.reduce(np.ones((3, 2)))[:, :1], SimpleNamespace(sizes=lambda rows: np.full(len(rows), 24)))
    assert net.traffic.tolist() == [40, 80, 40]
    net.mix(0, np.ones((3, 2), np.float32), beside=1)  # three numbers over each of two edges, both ways
    assert net.traffic.tolist() == [40 + 24, 80 + 48, 40 + 24]
    packed = Sparse(np.ones((3, 2), np.float32), np.array([[0, 1]] * 3, np.int32), 9)
    size = int(packed.bytes[0])
    net.mix(1, packed)
    assert net.traffic.tolist() == [64 + 2 * size, 128 + 4 * size, 64 + 2 * size]
    ends = net.edges(2)
    net.send_each(2, ends, np.ones((3, 2, 7), np.float32))
    assert net.traffic.tolist() == [64 + 2 * size + 56, 128 + 4 * size + 112, 64 + 2 * size + 56]


class Kept(Engine):
    """Runs all agents in this process and keeps the network."""

    def run(self, problem, schedule, solver, begin, rounds, observer):
        self.network = StackedNetwork(schedule, problem.dtype)
        everyone = problem.restrict(slice(0, problem.agents))
        return run_rounds(everyone, self.network, solver, begin, rounds, reports(observer, solver))


RANDOM = topologies.erdos_renyi(8, 0.4, seed=0)
CHANGING = topologies.RandomEdges(RANDOM, 0.5, seed=0)
ARCS = nx.DiGraph([*((i, (i + 1) % 8) for i in range(8)), (0, 4), (2, 7)])  # agents send and receive unequally
RUNS = {
    "changing": (GradientTracking(0.01), CHANGING),
    "directed": (SGP(0.01), topologies.Static(ARCS, weights=topologies.push)),
    "packed": (BEER(TopK(2), 0.01, 0.3), RANDOM),
    "quantised": (BEER(Quantize(4), 0.01, 0.3), RANDOM),
    "rule": (NNA(DGD(0.01), byzantine_weight=0.1), RANDOM),
    "told": (PowerGossip(DGD(0.01), 1), RANDOM),
    "relayed": (RelaySGD(0.01), RANDOM),
    "adaptive": (AdaptiveNEXT(), RANDOM),
    "adaptive, changing": (AdaptiveNEXT(), CHANGING),
    "tree": (TreeLBFGS(), RANDOM),
    "tree, curvature": (TreeNewton(), RANDOM),
}


@pytest.mark.parametrize("name", with_slow(RUNS, "packed", "rule", "adaptive", "tree", "told"))
def test_all_agents_together_move_twice_what_is_sent(name, forked):
    rng = np.random.default_rng(1)
    shards = consensus.partition(rng.standard_normal((40, 3)), rng.standard_normal(40), agents=8, seed=0)
    problem = consensus.Problem(consensus.MLP([3, 2, 1]), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    (solver, network), engine = RUNS[name], Kept()
    history = consensus.solve(problem, network, solver, rounds=12, record_every=1, engine=engine).history
    assert engine.network.traffic.sum() == 2 * history["bytes"][-1] > 0
    assert history["bytes_busiest"][-1] == engine.network.traffic.max() <= history["bytes"][-1]
    assert (np.diff(history["bytes_busiest"]) >= 0).all()
    two = consensus.solve(problem, network, solver, rounds=12, record_every=1, engine=consensus.engines.Processes(2)).history
    np.testing.assert_array_equal(two["bytes_busiest"], history["bytes_busiest"])


class Apart(Kept):
    """As if every exchange sent 100 bytes to another machine."""

    class Network(StackedNetwork):
        @property
        def counts(self):
            return super().counts | {"bytes_between_hosts": 100 * self.exchanges}

    def run(self, problem, schedule, solver, begin, rounds, observer):
        network, everyone = self.Network(schedule, problem.dtype), problem.restrict(slice(0, problem.agents))
        return run_rounds(everyone, network, solver, begin, rounds, reports(observer, solver))


@pytest.mark.parametrize(("first", "then", "expected"), [
    (Apart(), Apart(), [0, 200, 400, 600, 800]),
    ("stacked", Apart(), [0, 0, 0, 200, 400]),  # until then nothing left the machine
    (Apart(), "stacked", [0, 200, 400, 400, 400]),
])  # fmt: skip
def test_bytes_between_hosts_add_up_when_a_run_goes_on_elsewhere(first, then, expected, tmp_path):
    rng = np.random.default_rng(1)
    shards = consensus.partition(rng.standard_normal((40, 3)), rng.standard_normal(40), agents=8, seed=0)
    problem, path = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), shards), tmp_path / "run.ckpt"
    consensus.solve(problem, RANDOM, DGD(0.01), rounds=4, record_every=2, engine=first, checkpoint=path)
    resumed = consensus.solve(problem, RANDOM, DGD(0.01), rounds=8, record_every=2, engine=then, resume=path).history
    assert resumed["bytes_between_hosts"].tolist() == expected
    alone = consensus.solve(problem, RANDOM, DGD(0.01), rounds=8, record_every=2).history
    assert set(resumed) - set(alone) == {"bytes_between_hosts"}
    for name in set(alone) - {"seconds"}:
        np.testing.assert_array_equal(resumed[name], alone[name])


# How what all ranks collect travels: everyone comes to have everything, and machines get it once.


def test_messages_of_different_kinds_have_different_tags():
    mail = MAIL, COUNT, ORDER, ANSWER
    assert len({MIXED, COLLECTED, UNEVEN, NOTES, LEAVES, *mail, *(kind + TAKEN for kind in mail)}) == 13


@pytest.mark.parametrize("hosts", ["a", "ab", "aabb", "aaabbc", "abababa", "aaaab", "abcde", "aaaaaaa"])
def test_all_ranks_get_all_rows_and_each_host_gets_them_once(hosts):
    ranks = range(len(hosts))
    steps = list(zip(*(routes(me, hosts) for me in ranks), strict=True))
    has = [{me} for me in ranks]
    crossed = []
    for step in steps:
        before = [set(owners) for owners in has]
        for one, other in itertools.permutations(ranks, 2):
            sent = [owner for rank, owner in step[one][1] if rank == other]
            assert sent == [owner for rank, owner in step[other][0] if rank == one]  # in the same order
            assert before[one] >= set(sent)
            assert not has[other] & set(sent)  # nothing arrives twice
            has[other] |= set(sent)
            crossed += [(owner, hosts[other]) for owner in sent if hosts[one] != hosts[other]]
    assert has == [set(ranks)] * len(hosts)
    assert sorted(crossed) == sorted((owner, host) for owner in ranks for host in set(hosts) - {hosts[owner]})


# Packed rows sent by network.mix: bytes by hand, the same rows on every engine, less on the wire.

STAR = topologies.Static(topologies.star(4))  # agent 0 in the middle: three neighbours; the others have one


def network(schedule=STAR, dtype=np.float64):
    return StackedNetwork(schedule, dtype, strict=True)


def test_bytes_by_hand_where_rows_differ_in_size():
    """Rows of 3, 1, 0 and 2 entries, 8 bytes each, and a byte of places: agent 0's goes over three edges, others' over one."""
    indices = np.array([[0, 3, 4], [2, -1, -1], [-1, -1, -1], [1, 0, -1]], np.int32)
    sparse = Sparse(np.arange(12.0).reshape(4, 3), indices, columns=5)
    net = network()
    (mixed,) = net.mix(0, sparse)
    np.testing.assert_array_equal(mixed, STAR.weights(0) @ sparse.unpack())
    assert net.counts == {"exchanges": 1, "messages": 6, "floats": 3 * 3 + 1 + 0 + 2, "bytes": 8 * (3 * 3 + 1 + 0 + 2) + 6}


def test_packed_rows_travel_beside_arrays():
    """Of float32: 3 bits of 5 numbers are 2 bytes, and a scale of 4; 7 numbers beside them 28, and 2 more."""
    net, rows = network(dtype=np.float32), np.arange(20, dtype=np.float32).reshape(4, 5)
    more = np.arange(28, dtype=np.float64).reshape(4, 7)
    packed = Quantized.nearest(rows, 3)
    first, second = net.mix(0, packed, more, beside=2)
    W = STAR.weights(0).astype(np.float32)
    np.testing.assert_array_equal(first, W @ packed.unpack())
    np.testing.assert_array_equal(second, W @ more.astype(np.float32))
    assert (net.floats, net.bytes) == (6 * (5 + 7 + 2), 6 * (2 + 4 + 4 * 7 + 4 * 2))


def test_directed_edges_cost_their_sender():
    """Agent 0 sends to 1 and 2, agent 1 to 2; nobody hears agent 2."""
    graph = nx.DiGraph([(0, 1), (0, 2), (1, 2)])
    net = network(topologies.Static(graph, weights=topologies.push))
    sparse = Sparse(np.ones((3, 3)), np.array([[0, 1, 2], [0, 1, -1], [0, -1, -1]], np.int32), 3)
    net.average(0, sparse)
    assert (net.messages, net.floats, net.bytes) == (3, 2 * 3 + 2, 8 * 8 + 3)


def test_several_exchanges_a_round_send_packed_rows_first():
    class Packs(DGD):
        def step(self, problem, network, state):
            (w,) = network.mix(state.round, Sparse.largest(state.w, 2))
            return state._replace(round=state.round + 1, w=w)

    case = engine_cases.special()["functions, DGD"]
    gap = topologies.spectral_gap(case.network.weights(0))
    W, start = case.network.weights(0).toarray(), np.random.default_rng(0).standard_normal((7, 5))
    sent = Sparse.largest(start, 2).unpack()
    results = [
        consensus.solve(case.problem, case.network, solver, rounds=1, start=start)
        for solver in (Gossip(Packs(0.1), 3), Gossip(Packs(0.1), 3, gap))
    ]
    np.testing.assert_allclose(results[0].w, np.linalg.matrix_power(W, 3) @ sent, rtol=1e-13)
    x = (sent, W @ sent)
    rho = 1 - gap
    T = [1, 1 / rho, 2 / rho**2 - 1, 4 / rho**3 - 3 / rho]
    for j in (1, 2):
        x = (*x, 2 * T[j] / (rho * T[j + 1]) * W @ x[-1] - T[j - 1] / T[j + 1] * x[-2])
    np.testing.assert_allclose(results[1].w, x[-1], rtol=1e-12, atol=1e-15)
    for result in results:
        messages = result.history["messages"][-1] // 3
        assert result.history["bytes"][-1] == messages * (17 + 2 * 40)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_ranks_send_packed_rows_as_they_are(kind, tmp_path):
    """Bytes sent in 5 rounds: a row goes once to each rank that needs it, in the form in which it is packed."""
    blocks, W = blocks_of(engine_cases.AGENTS, 3), engine_cases.NETWORKS["static"].weights(0).toarray()
    rows = 5 * sum(W[block][:, other].any(axis=0).sum() for block in blocks for other in blocks if other != block)
    assert on_ranks(3, "packed", tmp_path, kind) == {
        "arrays": 8 * 19 * rows,
        "4 of 19": (8 * 4 + 2) * rows,  # two bits a place, and 4 + 19 // 4
        "4 bits": (10 + 8) * rows,
        "halves": (2 * 19 + 2) * rows,
        "4 drawn": (8 * 4 + 4) * rows,
        "rank 1": 8 * (4 + 3 + 19 - 12) * rows,
        "runs": (8 * 19 + 8) * rows,  # as wide as codes may be
        "whole": 8 * 19 * rows,
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_messages_for_neighbours_go_to_them_alone(kind, tmp_path):
    """Three numbers a message, of which those between ranks alone are sent; and each comes to the end that it is for."""
    blocks, W = blocks_of(engine_cases.AGENTS, 3), engine_cases.NETWORKS["static"].weights(0).toarray()
    between = sum(np.count_nonzero(W[block][:, other]) for block in blocks for other in blocks if other != block)
    edges = np.count_nonzero(W - np.diag(np.diag(W)))
    assert on_ranks(3, "sent_each", tmp_path, kind) == [3 * 8 * between, edges, 3 * edges, 3 * 8 * edges]
    net = network(engine_cases.NETWORKS["static"])
    ends, me = net.edges(0), np.arange(engine_cases.AGENTS)[:, None]
    heard = net.send_each(0, ends, np.stack([me + 0 * ends.others, ends.others], axis=2).astype(float))
    assert ends.there.sum() == edges
    np.testing.assert_array_equal(heard[ends.there], np.stack([ends.others, me + 0 * ends.others], axis=2)[ends.there])
    np.testing.assert_array_equal(ends.weights[ends.there], W[(me + 0 * ends.others)[ends.there], ends.others[ends.there]])
    with pytest.raises(ValueError, match="messages to single neighbours need edges in both directions"):
        network(topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 0)]), weights=topologies.push)).edges(0)


def test_packed_rows_of_other_agents_are_refused():
    with pytest.raises(TypeError, match=r"packed rows, with a row for each of the 4.*; got shape \(3, 2\), shape"):
        network().mix(0, Sparse.largest(np.ones((3, 5)), 2))


# Receives posted before their messages are due: both ends agree on tags, and nothing arrives in another place.

KIND = 1904


class Link:
    """One way between two ranks as gloo has it: messages of one tag meet receives of that tag, in order."""

    def __init__(self):
        self.posted, self.sent, self.going = defaultdict(deque), defaultdict(deque), Sizes(KIND)
        self.coming, self.lost, self.at_once = Ahead(KIND, self.receive), False, 0

    def receive(self, rows, tag):
        if self.lost:
            raise LostRank(1)
        self.posted[tag].append(rows)
        self.meet(tag)
        return tag

    def send(self, message):
        tag = self.going.tag if self.going.fits(message.size) else KIND
        self.at_once += bool(self.posted[tag])  # it need not ask first
        self.sent[tag].append(message)
        self.meet(tag)

    def meet(self, tag):
        while self.posted[tag] and self.sent[tag]:
            message, rows = self.sent[tag].popleft(), self.posted[tag].popleft()
            assert message.size <= rows.size, "gloo refuses messages longer than the room for them"
            rows[: message.size] = message

    def exchange(self, messages, receiver_first):
        """Send messages that are under way together; return what arrived."""
        rooms = [np.zeros(message.size, np.uint8) for message in messages]
        if not receiver_first:
            list(map(self.send, messages))
        over = [self.coming.begin(rows)[1] for rows in rooms]
        if receiver_first:
            list(map(self.send, messages))
        for last in filter(None, over):
            last()
        return rooms


@pytest.mark.parametrize("seed", range(20))
def test_every_message_arrives_where_it_is_waited_for(seed):
    draws, link = np.random.default_rng(seed), Link()
    for _ in range(60):
        sizes = np.int64(2 ** draws.uniform(0, 16, draws.integers(1, 5))) - 1
        messages = [draws.integers(0, 256, size, np.uint8) for size in sizes]
        for sent, arrived in zip(messages, link.exchange(messages, draws.random() < 0.5), strict=True):
            assert np.array_equal(sent, arrived)


def test_messages_of_known_sizes_never_ask():
    link, message = Link(), np.arange(5000, dtype=np.uint16).view(np.uint8)
    link.exchange([message], receiver_first=False)
    assert link.at_once == 0
    for size in [10_000, 9_999, 1, 0] * 5:
        link.exchange([message[:size]], receiver_first=False)
    assert link.at_once == 20
    link.exchange([message] * 3, receiver_first=False)
    assert link.at_once == 20 + _AHEAD


def test_sizes_are_few_and_large_messages_take_no_memory():
    link = Link()
    for size in range(1, 20_000, 7):
        link.exchange([np.zeros(size, np.uint8)], receiver_first=False)
    assert sum(buffer.size for buffers in link.posted.values() for buffer in buffers) == _AHEAD * (4096 + 8192 + 16384 + 32768)
    link = Link()
    large = np.arange(_MOST + 1, dtype=np.uint32).view(np.uint8)[: _MOST + 1]
    for _ in range(3):
        (arrived,) = link.exchange([large], receiver_first=False)
        assert np.array_equal(arrived, large)
    assert not any(link.posted.values())


def test_the_last_message_of_a_rank_that_ends_arrives():
    link, message = Link(), np.arange(100, dtype=np.uint8)
    for _ in range(2):
        link.exchange([message], receiver_first=False)
    link.send(message)
    rows = np.zeros(100, np.uint8)
    _, over = link.coming.begin(rows)
    link.lost = True  # it has ended: nothing more can be asked for
    over()
    assert np.array_equal(rows, message)
    link.coming.begin(rows)  # of the message that was asked for before
    with pytest.raises(LostRank):
        link.coming.begin(rows)
