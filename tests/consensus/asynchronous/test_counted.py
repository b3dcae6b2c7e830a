"""What engines with real agents count and say, without processes or ranks: tallies, watches, workers' loops, mail of a rank."""

import os
from types import SimpleNamespace

import cloudpickle
import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.asynchronous import ADPSGD, ASYSONATA, AsyncProcesses, Simulated, post, processes, rank, waking
from consensus.asynchronous.arcs import arcs_of
from consensus.asynchronous.board import Board
from consensus.asynchronous.partner import Partner
from consensus.asynchronous.tally import WORK, Seen, Tally
from consensus.surrogates import FullLinearization
from consensus.workers.shared_memory import SharedArray
from tests.helpers.problems import problem
from tests.helpers.unlike_quadratics import AGENTS, GRAPH, QUADRATICS, STEPS, B, H, L, asy_sonata_in_turn

LINES = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2), (0, 3), (3, 0)])  # agent 0 sends three messages at a wake


def arcs(graph=LINES):
    return arcs_of(topologies.pull(graph), topologies.push(graph), np.dtype(float))


@pytest.mark.parametrize("along", [None, np.arange(1, 7)])
def test_messages_are_counted_by_hand(along):
    """Of 2 + 3 numbers; agent i woke 10^i times, or each arc has a count of its own, in the order of targets and sources."""
    kinds = np.zeros((4, 2), np.float32), np.zeros((4, 3), np.float32)
    wakes, w = 10 ** np.arange(4), np.zeros((4, 2), np.float32)
    by_target = [(2, 0), (3, 0), (0, 1), (0, 2), (1, 2), (0, 3)]  # (source, target)
    each = dict(zip(by_target, along if along is not None else [wakes[source] for source, _ in by_target], strict=True))
    seen = Seen(w, wakes, np.arange(4.0), np.arange(4), along)
    found = Tally(arcs(), kinds).gathered(7, seen, np.arange(5.0), 1.5)
    sent = sum(each.values())
    assert found.counts["exchanges"] == 7
    assert (found.counts["messages"], found.counts["floats"], found.counts["bytes"]) == (sent, 5 * sent, 20 * sent)
    by_hand = [sum(count for arc, count in each.items() if i in arc) for i in range(4)]  # what is sent and what is received
    np.testing.assert_array_equal(found.counts["traffic"], 20 * np.array(by_hand))
    assert [found.counts[name] for name in WORK] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(found.report, np.column_stack([np.full(4, 1.5), wakes, np.arange(4), np.arange(4)]))


class Process:
    """A worker that runs, has ended, or has died."""

    def __init__(self, exitcode=None):
        self.exitcode = exitcode

    def is_alive(self):
        return self.exitcode is None


def watch(*codes):
    """The parent's part with workers of two agents each that ended so, if they have."""
    board = Board([np.zeros((2 * len(codes), 2)), np.zeros((2 * len(codes), 3))])
    blocks = [slice(2 * k, 2 * k + 2) for k in range(len(codes))]
    pipes = [SimpleNamespace(poll=lambda: False) for _ in codes]
    tally = SimpleNamespace(gathered=lambda *seen: seen)
    done = SharedArray((len(codes), len(WORK)), np.float64)
    return processes._Watch(board, blocks, [Process(code) for code in codes], pipes, done, tally)


def test_one_dead_worker_is_warned_of_and_one_that_has_ended_is_not_dead():
    watched = watch(0, -9, None)
    watched.board.published[2:4] = 3, 4
    watched._look()
    with pytest.warns(
        UserWarning, match=r"^worker 1 \(agents 2 to 3\) died after 7 wakes \(exit code -9\): the others went on"
    ):
        watched._name_the_dead()
    watched._look()  # named once
    assert list(watched.dead) == [1]
    with pytest.raises(consensus.WorkerError, match=r"worker 1 .* died after 7 wakes"):
        watched.until_ready(np.zeros(3))


def test_ages_count_from_one_row_to_the_next():
    watched = watch(None)
    watched.board.stale[:] = 3.0, 5.0
    first, second = (watched._gathered(round)[1].stale for round in (0, 1))
    assert (first.tolist(), second.tolist()) == ([3, 5], [0, 0])


def task(solver, board, most, start, whole=QUADRATICS, graph=GRAPH):
    """A worker that has all agents."""
    there = arcs(graph)
    ready, stop = SharedArray((2,), np.int64), SharedArray((1,), np.int64)
    ready.array[:] = 1
    shared = whole.shared()
    done, pickled = SharedArray((1, len(WORK)), np.float64), cloudpickle.dumps(solver)
    return waking.Task(0, slice(0, whole.agents), pickled, shared, start, there, board, most, ready, done, stop, os.getppid())


def test_a_worker_with_all_agents_is_the_loop_by_hand_and_ends_at_the_last_wake(monkeypatch):
    start = np.tile(np.arange(5) / 3, (AGENTS, 1))
    solver = ASYSONATA(FullLinearization(AGENTS * L), 0.4)
    board = Board([start, np.zeros_like(start), start])
    own = task(solver, board, 12 * AGENTS, start)
    blocks = waking.Blocks  # each agent by itself, as with batches: it reads what those before it have sent
    monkeypatch.setattr(waking, "Blocks", lambda problem, arcs, single: blocks(problem, arcs, True))
    waking._wake_until_done(own)
    assert board.published.tolist() == [12] * AGENTS
    (w,), _ = board.read(np.arange(AGENTS), slice(-1, None))
    np.testing.assert_allclose(w, asy_sonata_in_turn(H, B, start[0], 0.4 / L, 12)[-1], atol=1e-13)
    assert own.work.array[0, WORK.index("gradients")] == 12


def test_a_worker_that_diverges_says_so():
    start = np.ones((AGENTS, 5))
    board = Board([start, np.zeros_like(start), start])
    with np.errstate(all="ignore"), pytest.raises(consensus.DivergenceError):
        waking._wake_until_done(task(ASYSONATA(FullLinearization(0.01), 1.0), board, 10**6, start))


def test_a_partner_that_is_late_is_waited_for_once():
    asked = []

    class Busy:
        names, stale = ("w",), np.zeros(2)

        def hold(self, agents, patience):
            asked.append((agents, patience))
            return None if len(asked) < 3 else np.array([0, 1])

        def hold_own(self, agent):
            return np.array([agent])

        def read(self, agents, fields):
            return [np.zeros((len(agents), 3))], np.zeros(len(agents))

    pair = nx.path_graph(2)
    part = SimpleNamespace(
        rows=slice(0, 1), arcs=arcs_of(*ADPSGD(0.1).matrices(topologies.Static(pair)), dtype=np.dtype(float))
    )
    own, late = SimpleNamespace(w=np.zeros((1, 3))), set()
    partner = Partner(Busy(), part, 0, SimpleNamespace, late)
    for _ in range(4):
        partner._meet(own)
    assert asked == [([0, 1], patience) for patience in (0.1, 0.0, 0.0, 0.1)]  # after they have met it is waited for again
    assert late == set()


@pytest.mark.parametrize(("asked", "workers"), [(20, 8), (3, 3), (None, 2)])
def test_there_are_no_more_workers_than_agents(asked, workers, monkeypatch):
    class Begun(Exception):
        pass

    def group(work, tasks, end):
        raise Begun(len(tasks), [task.rows for task in tasks])

    monkeypatch.setattr(processes, "process_group", group)
    monkeypatch.setattr(processes, "cores", lambda: 2)
    with pytest.raises(Begun) as caught:
        consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=1, engine=AsyncProcesses(asked))
    count, rows = caught.value.args
    assert count == workers
    assert [agent for block in rows for agent in range(block.start, block.stop)] == list(range(8))


def test_workers_resume_no_checkpoint(tmp_path):
    consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=2, engine=Simulated(), checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match=r"checkpoint of another run: .*clock"):
        consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=4, engine=AsyncProcesses(2), resume=tmp_path / "run")
    with pytest.raises(ValueError, match=r"AsyncProcesses writes and resumes no checkpoints"):
        consensus.solve(QUADRATICS, GRAPH, STEPS, rounds=4, engine=AsyncProcesses(2), checkpoint=tmp_path / "other")


class Line:
    """A communicator whose messages are always on their way, or never."""

    def __init__(self, free):
        self.free = free

    def _request(self, *_):
        return SimpleNamespace(Test=lambda: self.free, Start=lambda: None)

    Ssend_init = _request

    def Recv_init(self, *_):
        return SimpleNamespace(Test=lambda: False, Start=lambda: None)


def of_rank(blocks, free=True, graph=LINES, whole=None):
    """The agents of the first rank."""
    whole = whole or problem(agents=4)
    start = np.zeros((4, whole.parameters))
    ranks = SimpleNamespace(me=0, size=len(blocks), exchange=lambda *_: None, broadcast=lambda mine: mine)
    ranks.allgather_rows = lambda rows, sizes: np.zeros((sizes.sum(), *rows.shape[1:]))
    solver, mail = ASYSONATA(FullLinearization(80.0), 0.1), post.MPIPost(Line(free))
    return rank.AgentsOfRank(whole.restrict(blocks[0]), solver, arcs(graph), blocks, ranks, mail, start[blocks[0]])


@pytest.mark.parametrize(("free", "lost"), [(False, [[2, 1], [4, 2]]), (True, [[0, 0], [0, 0]])])
def test_a_rank_that_takes_nothing_loses_a_message_along_each_arc(free, lost, monkeypatch):
    own = of_rank([slice(0, 2), slice(2, 4)], free)
    monkeypatch.setattr(post.waiting.Wait, "pause", lambda self: 0.0)
    own.begin(0.0)
    for expected in lost:
        own.sweep()
        assert own.report["lost"].tolist() == expected  # agent 0 sends to 2 and 3, agent 1 to 2


def test_an_age_is_that_of_a_message_since_the_last_report():
    own, clock = of_rank([slice(0, 4)]), SimpleNamespace(now=0.0)
    own.now = lambda: clock.now
    own.begin(0.0)
    assert own._unused.any()  # agents with fewer neighbours than others have empty places, which have no age
    clock.now = 100.0
    own.sweep()
    assert own.report["stale"].tolist() == [100] * 4  # of the start
    clock.now = 103.0
    own.sweep()
    assert own.answer()["stale"].tolist() == [100] * 4  # the greatest
    clock.now = 104.0
    own.sweep()
    assert own.answer()["stale"].tolist() == [1] * 4
