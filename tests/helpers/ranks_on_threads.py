"""What ranks compute, on threads of this process that hand each other what ranks would send."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import consensus
from consensus.engines import Begin, StackedNetwork, ranks, run_rounds
from consensus.engines.rank_engine import HaloNetwork
from consensus.observe import total
from consensus.workers.blocks import blocks_of


class Ranks:
    """Stands for :class:`consensus.engines.ranks.Ranks` on one of the threads."""

    def __init__(self, me, size, brought, barrier):
        self.me, self.size, self.brought, self.barrier = me, size, brought, barrier
        self.wire, self.elsewhere = 0, frozenset()  # bytes sent; ranks on other machines

    def allgather(self, mine):
        self.brought[self.me] = mine
        self.barrier.wait(30)
        everyone = list(self.brought)
        with contextlib.suppress(threading.BrokenBarrierError):  # who ends after this one has heard: the next barrier says so
            self.barrier.wait(30)  # nobody brings the next thing before all have heard this one
        return everyone

    def allgather_rows(self, rows, counts):
        everyone = self.allgather(rows.copy())
        assert [len(part) for part in everyone] == counts.tolist()
        return np.concatenate(everyone)

    def exchange(self, receives, sends, kind=None):
        assert self.me not in [rank for rank, _ in (*receives, *sends)]
        everyone = self.allgather([(rank, rows.copy()) for rank, rows in sends])
        arrived = [[rows for rank, rows in sent if rank == self.me] for sent in everyone]  # in their order
        for rank, room in receives:
            message = arrived[rank].pop(0)
            self.wire += message.nbytes
            assert message.dtype == room.dtype
            assert message.shape == room.shape or room.dtype == np.uint8, "only bytes may be fewer than there is room for"
            room.reshape(-1)[: message.size] = message.ravel()
        assert not any(arrived), "what is sent is received"

    def broadcast(self, mine):
        return self.allgather(mine)[0]

    gather_rows = ranks.Ranks.gather_rows


def together(size, function):
    """``function(ranks)`` on each of ``size`` threads; their results in order."""
    brought, barrier = [None] * size, threading.Barrier(size)

    def one(me):
        try:
            return function(Ranks(me, size, brought, barrier))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        done = [pool.submit(one, me) for me in range(size)]
    errors = [each.exception() for each in done if each.exception()]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error  # because of it the others' barriers broke
    return [each.result() for each in done]


def assert_bits_of_one_process(problem, network, solver, size, rounds=4):
    """Iterates and counts on ``size`` ranks are those of one process; returns the bytes that ranks sent each other."""
    alone = consensus.solve(problem, network, solver, rounds=rounds)
    begin = Begin.start(np.tile(problem.model.init(np.random.default_rng(0)), (problem.agents, 1)))
    edges = solver.edges(network) if hasattr(solver, "edges") else network
    ready, blocks = solver.prepared(problem, network), blocks_of(problem.agents, size)

    def run(ranks):
        rows, seen = blocks[ranks.me], []
        own = HaloNetwork(edges, rows, problem.dtype, False, ranks, blocks)
        run_rounds(problem.restrict(rows), own, ready, begin.block(rows), rounds, lambda *said: seen.append(said))
        state, counts, _ = seen[-1]
        return state.w, counts, ranks.wire

    w, counts, wire = zip(*together(size, run), strict=True)
    np.testing.assert_array_equal(np.concatenate(w), alone.w)
    counted = total(counts)
    for name in {*counted} & {*alone.history}:
        assert counted[name] == alone.history[name][-1], name
    return sum(wire)


class Crossing(StackedNetwork):
    """All agents in one process; ``crossing`` counts the bytes of messages along a tree between agents of different blocks."""

    def __init__(self, schedule, blocks):
        super().__init__(schedule, np.dtype(float))
        self.owner, self.crossing = np.repeat(np.arange(len(blocks)), [rows.stop - rows.start for rows in blocks]), 0

    def _count_sizes(self, plan, numbers, sent, received):
        super()._count_sizes(plan, numbers, sent, received)
        edges = plan.matrix.tocoo()
        senders = edges.col[self.owner[edges.row] != self.owner[edges.col]]
        self.crossing += int((sent // np.maximum(plan.copies, 1))[senders].sum())


def crossing_bytes(problem, network, solver, size, rounds=4):
    """The counted bytes of a tree's messages between ``size`` ranks."""
    everyone = slice(0, problem.agents)
    net, begin = Crossing(network, blocks_of(problem.agents, size)), problem.model.init(np.random.default_rng(0))
    begin = Begin.start(np.tile(begin, (problem.agents, 1)))
    run_rounds(problem.restrict(everyone), net, solver.prepared(problem, network), begin, rounds, lambda *_: None)
    return net.crossing
