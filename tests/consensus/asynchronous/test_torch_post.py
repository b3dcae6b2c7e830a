"""The messages of AsyncTorch, over wires in memory that move nothing before its receiver has asked for it, as gloo's do."""

import random
import sys
import threading
from collections import defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pytest

from consensus.asynchronous import RASGP, AsyncTorch
from consensus.asynchronous.arcs import arcs_of
from consensus.asynchronous.rank import AgentsOfRank
from consensus.asynchronous.torch_ranks import TorchPost
from consensus.engines.transport import LostRank
from consensus.errors import WorkerError
from consensus.step_sizes import Diminishing
from consensus.workers.blocks import blocks_of
from tests.helpers.unlike_quadratics import AGENTS, GRAPH, OPTIMUM, QUADRATICS, STEPS
from topologies import Static, push

KIND = 1906


class Wire:
    """What one rank sends and receives: the part of ``TorchTransport`` that the post knows."""

    def __init__(self, wires, me):
        self.wires, self.me, self.size = wires, me, wires.size

    def send(self, rank, rows, tag):
        return self.wires.begin(self.wires.sent, (self.me, rank, tag), rows)

    def receive(self, rank, rows, tag):
        return self.wires.begin(self.wires.awaited, (rank, self.me, tag), rows)

    def wait(self, rank, work):
        assert work.wait(60)
        if work in self.wires.broken:
            raise LostRank(rank)


class Wires:
    """Messages between ranks, of which none moves while they are ``held``."""

    def __init__(self, size):
        self.size, self.held, self.moved, self.broken = size, False, 0, set()
        self.sent, self.awaited, self._lock = defaultdict(deque), defaultdict(deque), threading.Lock()
        self.posts = [TorchPost(Wire(self, me)) for me in range(size)]

    def begin(self, side, way, rows):
        with self._lock:
            work = threading.Event()
            side[way].append((rows, work))
        self.move()
        return work

    def move(self):
        with self._lock:
            for way, awaited in self.awaited.items():
                while awaited and self.sent[way] and not self.held:
                    (target, received), (rows, sent) = awaited.popleft(), self.sent[way].popleft()
                    target[...] = rows
                    self.moved += 1
                    received.set()
                    sent.set()

    def lose(self, rank):
        """Break all connections of a rank."""
        with self._lock:
            for side in (self.sent, self.awaited):
                for (source, target, _), messages in side.items():
                    while rank in (source, target) and messages:
                        _, work = messages.popleft()
                        self.broken.add(work)
                        work.set()

    def end(self, timeout=60.0):
        """All ranks end together; the errors of those that cannot."""
        names = [f"rank {rank}" for rank in range(self.size)]
        errors = []

        def end(post):
            try:
                post.end(SimpleNamespace(names=names, timeout=timeout))
            except (LostRank, WorkerError) as error:
                errors.append(error)

        threads = [threading.Thread(target=end, args=(post,)) for post in self.posts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return errors


@pytest.fixture
def wires():
    made = Wires(2)
    yield made
    made.lose(1)  # what still waits for a word of it ends


def test_the_next_message_leaves_when_the_last_was_taken_and_the_newest_counts(wires):
    target = np.zeros(3)
    out, box = wires.posts[0].departures(1, target, KIND), wires.posts[1].arrivals(0, target, KIND)
    assert not box.take()
    assert out.offer(np.array([1.0, 2.0, 3.0]))
    assert [out.offer(np.full(3, 4.0)), out.free] == [False, False]  # it has arrived, and was not taken
    assert target.tolist() == [0, 0, 0]
    assert [box.take(), box.take()] == [True, False]
    assert target.tolist() == [1, 2, 3]
    assert out.offer(np.full(3, 5.0))
    assert box.take()
    assert target.tolist() == [5, 5, 5]
    assert wires.end() == []
    assert [box.take(), box.over] == [False, True]
    assert target.tolist() == [5, 5, 5]  # the last word is no message
    assert not any(map(len, [*wires.sent.values(), *wires.awaited.values()]))  # for the messages of another run
    assert not any(thread.is_alive() for post in wires.posts for thread in post._threads.values())


def test_records_and_both_ways_of_one_kind_do_not_mix(wires):
    kind = np.dtype([("sent", "f8"), ("v", "f4", (3,)), ("wakes", "i8")], align=True)
    boxes = []
    for me, post in enumerate(wires.posts):
        target = np.zeros(2, kind)
        boxes.append((post.departures(1 - me, target), post.arrivals(1 - me, target), target))
    for me, (out, _, _) in enumerate(boxes):
        assert out.offer(np.array([(me + 0.5, (1, 2, me), 7), (0, (0, 0, 0), -1)], kind))
    for me, (_, box, target) in enumerate(boxes):
        assert box.take()
        assert target["sent"].tolist() == [1.5 - me, 0]
        assert target["v"].tolist() == [[1, 2, 1 - me], [0, 0, 0]]
        assert target["wakes"].tolist() == [7, -1]
    assert wires.end() == []


def test_a_lost_rank_is_an_error_of_who_waits_for_it(wires):
    post = wires.posts[0]
    out, box = post.departures(1, np.zeros(1), KIND), post.arrivals(1, np.zeros(1), KIND)
    assert wires.posts[1].departures(0, np.zeros(1), KIND).offer(np.ones(1))
    assert out.offer(np.ones(1))
    wires.lose(1)
    post._threads[1].join()
    for waits in (lambda: out.offer(np.ones(1)), out.close):
        with pytest.raises(LostRank, match="rank 1"):
            waits()
    assert box.take()  # what has arrived before
    with pytest.raises(LostRank, match="rank 1"):
        box.take()


@pytest.mark.parametrize("when", ["before the last messages", "before the last words"])
def test_a_rank_that_does_not_end_is_named(when, wires):
    if when == "before the last messages":
        wires.posts[0].departures(1, np.zeros(1), KIND)
    for post in wires.posts[1:]:
        post.end = lambda ranks: None
    (error,) = wires.end(timeout=0.01)
    assert str(error) == "at the end, rank 1 kept the others waiting for over 0.01 s"


def arcs_by(solver):
    return arcs_of(*solver.matrices(Static(GRAPH, weights=push)), dtype=np.dtype(float))


def agents_of(wires, solver):
    blocks = blocks_of(AGENTS, wires.size)
    for me, post in enumerate(wires.posts):
        ranks = SimpleNamespace(me=me, allgather_rows=lambda rows, sizes: np.zeros((sizes.sum(), *rows.shape[1:])))
        start = np.zeros((blocks[me].stop - blocks[me].start, 5))
        own = AgentsOfRank(QUADRATICS.restrict(blocks[me]), solver, arcs_by(solver), blocks, ranks, post, start)
        own.begin(0.0)
        post.pause = lambda: None
        yield own


def on_its_way(sources, sums, seen, shares):
    """What was added to running sums, and was not read at the other ends of arcs."""
    return sum(shares[j] * (sums[j] - seen[i, place]) for i in range(AGENTS) for place, j in enumerate(sources[i]) if j >= 0)


def tracked(state, sources):
    """Trackers less gradients, of all agents and on all arcs."""
    shares = [1 / (1 + GRAPH.out_degree(j)) for j in range(AGENTS)]
    return (state.z - state.gradient).sum(axis=0) + on_its_way(sources, state.rho, state.seen, shares)


def mass(state, sources):
    """The masses, less one for each agent."""
    return state.y.sum(axis=0) - AGENTS + on_its_way(sources, state.sum_y, state.seen_y, [1] * AGENTS)


@pytest.mark.parametrize(
    ("solver", "kept", "turns"), [(STEPS, tracked, 1500), (RASGP(Diminishing(1e-9, 0.1)), mass, 400)], ids=["sonata", "rasgp"]
)
def test_sums_are_kept_by_ranks_at_any_pace(solver, kept, turns):
    wires, draw = Wires(3), random.Random(0)
    ranks = list(agents_of(wires, solver))
    for turn in range(turns):
        wires.held = draw.random() < 0.3  # messages are late
        wires.move()
        draw.choice(ranks).sweep()
        if turn % 100 == 0:
            state = ranks[0].state._make(map(np.concatenate, zip(*(own.state for own in ranks), strict=True)))
            np.testing.assert_allclose(kept(state, arcs_by(solver).sources), 0, atol=1e-12)
    assert sum(own.report["lost"].sum() for own in ranks) > 50
    if solver is STEPS:
        assert abs(np.concatenate([own.state.w for own in ranks]) - OPTIMUM).max() < 1e-9
    wires.held = False
    wires.move()
    assert wires.end() == []


def test_the_engine_needs_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.distributed", None)
    with pytest.raises(ImportError, match=r"the AsyncTorch engine needs PyTorch: pip install 'consensus-opt\[torch\]'"):
        AsyncTorch()
