"""Packed rows sent by network.mix: bytes by hand, the same rows on every engine, less on the wire."""

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.compression import Quantized, Sparse
from consensus.engines.stacked import StackedNetwork
from consensus.solvers import DGD, Gossip
from consensus.workers.blocks import blocks_of
from tests.helpers import engine_cases
from tests.helpers.engine_harness import on_ranks

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
