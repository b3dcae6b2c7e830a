"""What each agent sends and receives: by hand on trees, and how what all ranks collect travels."""

import itertools
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.asynchronous.post import ANSWER, COUNT, MAIL, ORDER
from consensus.asynchronous.torch_ranks import LEAVES, TAKEN
from consensus.compression import Quantize, Sparse, TopK
from consensus.engines import Engine, StackedNetwork, reports, run_rounds
from consensus.engines.ranks import routes
from consensus.engines.transport import COLLECTED, MIXED, NOTES, UNEVEN
from consensus.robust import NNA
from consensus.solvers import BEER, DGD, SGP, AdaptiveNEXT, GradientTracking, PowerGossip, RelaySGD, TreeLBFGS, TreeNewton
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
