"""While rows travel between ranks, a rank mixes the rows of agents that need none of them: with the same bits."""

from types import SimpleNamespace

import numpy as np
import pytest
from ranks_on_threads import assert_bits_of_one_process, together

import consensus
import topologies
from consensus.engines import halo
from consensus.engines.halo import HaloNetwork
from consensus.engines.ranks import Ranks
from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.surrogates import PartialLinearization

AGENTS = 12
NETWORKS = {
    "ring": topologies.Static(topologies.ring(AGENTS)),
    "grid": topologies.Static(topologies.grid(3, 4)),
    "random": topologies.RandomEdges(topologies.erdos_renyi(AGENTS, 0.4, seed=1), 0.6, seed=2),
    "failing": topologies.LinkFailure(topologies.Static(topologies.ring(AGENTS)), 0.3, 1),
}


def problem():
    X = np.random.default_rng(0).standard_normal((96, 4))
    shards = consensus.partition(X, np.tanh(X[:, :1]), agents=AGENTS)
    return consensus.Problem(consensus.MLP([4, 5, 1]), consensus.SquaredLoss(), shards, consensus.L2(1e-3))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize(
    "solver", [DGD(0.1), GradientTracking(0.05, order="cta"), NEXT(PartialLinearization(1.0), 0.3)], ids=str
)
def test_the_bits_are_those_of_one_process(network, ranks, solver, monkeypatch):
    monkeypatch.setattr(halo, "_WORTH", 1)
    assert_bits_of_one_process(problem(), NETWORKS[network], solver, ranks)


def test_agents_that_need_no_others_are_known(monkeypatch):
    """On a ring of 12 agents and three ranks two of four agents are inner ones."""
    monkeypatch.setattr(halo, "_WORTH", 1)
    rows = np.random.default_rng(1).standard_normal((AGENTS, 3))

    def on_rank(ranks):
        blocks = [slice(4 * rank, 4 * rank + 4) for rank in range(3)]
        own = rows[blocks[ranks.me]]
        network = HaloNetwork(NETWORKS["ring"], blocks[ranks.me], rows.dtype, False, ranks, blocks)
        prepared, done = network._plans.at(0, "mix").extra, []
        exchange = ranks.exchange

        def watched(receives, sends, kind=None, meanwhile=None):
            exchange(receives, sends, kind, lambda: done.append(meanwhile()))

        monkeypatch.setattr(ranks, "exchange", watched)
        mixed, doubled = network.mix(0, own, 2 * own)
        assert (prepared.inner.tolist(), prepared.outer.tolist(), len(done)) == ([1, 2], [0, 3], 1)
        inner = (own[:-2] + own[1:-1] + own[2:]) / 3
        np.testing.assert_allclose(prepared.times_inner(own), inner, rtol=0, atol=1e-15)
        np.testing.assert_array_equal(doubled, 2 * mixed)
        return mixed

    mixed = np.concatenate(together(3, on_rank))
    np.testing.assert_allclose(mixed, (np.roll(rows, 1, axis=0) + rows + np.roll(rows, -1, axis=0)) / 3, rtol=0, atol=1e-15)


def test_work_is_done_after_messages_left_and_before_they_are_waited_for(monkeypatch):
    order = []
    transport = SimpleNamespace(me=0, size=2, exchange=lambda *_: order.append("sent") or ["pending"])
    ranks = Ranks(transport, timeout=1.0)
    monkeypatch.setattr(ranks, "wait", lambda pending: order.append(pending))
    ranks.exchange([(1, np.zeros(2))], [], meanwhile=lambda: order.append("worked"))
    ranks.exchange([], [], meanwhile=lambda: order.append("alone"))
    assert order == ["sent", "worked", ["pending"], "alone"]
