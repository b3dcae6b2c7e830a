"""Asynchronous DGD and robust push-sum: by hand, where they end, and what they keep."""

import multiprocessing
import os
import signal
from dataclasses import dataclass
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import consensus
import topologies
from consensus.asynchronous import ADPSGD, ASYSONATA, RASGP, AsynchronousDGD, AsyncProcesses, OverlapSGP, Simulated, pair_board
from consensus.asynchronous.ad_psgd import ADPSGDState
from consensus.asynchronous.arcs import arcs_of
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.events import Events
from consensus.asynchronous.mailbox import Mailbox
from consensus.asynchronous.meetings import Meetings
from consensus.asynchronous.pair_board import PairBoard
from consensus.asynchronous.timetable import Timetable
from consensus.solvers import DGD
from consensus.solvers.needs import Needs
from consensus.step_sizes import Diminishing, InverseSqrt
from consensus.surrogates import PartialLinearization
from tests.helpers.problems import AGENTS, CIRCLE, GRAPH, data, problem
from tests.helpers.unlike_quadratics import GRAPH as DIRECTED
from tests.helpers.unlike_quadratics import OPTIMUM, QUADRATICS, STEPS, C, H, L, events

NETWORK = topologies.Static(GRAPH)


def test_dgd_without_delay_is_a_loop_over_agents_in_turn():
    whole, w = problem(), np.ones((AGENTS, 5))
    W = NETWORK.weights(0).toarray()
    for _ in range(20):
        for i in range(AGENTS):
            w[i] = W[i] @ w - 0.05 * whole.average_gradient(w)[i]
    result = consensus.solve(whole, NETWORK, AsynchronousDGD(0.05), rounds=20, start=np.ones(5), engine=Simulated())
    np.testing.assert_allclose(result.w, w, rtol=1e-12)


@pytest.mark.slow
def test_dgd_ends_where_rounds_end_whatever_the_delays():
    whole = problem()
    step = 1.9 * NETWORK.weights(0).diagonal().min() / whole.lipschitz().max()
    rounds = consensus.solve(whole, NETWORK, DGD(step), rounds=3000, record_every=3000)
    for late in (Simulated((0.5, 1.5), (0.0, 10.0), 0.3), Simulated([1.0] * 5 + [10.0], 5.0)):
        result = consensus.solve(whole, NETWORK, AsynchronousDGD(step), rounds=4000, engine=late, record_every=4000)
        np.testing.assert_allclose(result.w, rounds.w, atol=1e-8)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(delay=st.sampled_from([0.0, (0.0, 10.0)]), loss=st.floats(0, 0.6), seed=st.integers(0, 100))
def test_masses_are_kept_at_every_event(delay, loss, seed):
    running = events(RASGP(Diminishing(0.05, 0.1)), Simulated((0.5, 1.5), delay, loss, seed=seed))
    for _ in range(100):
        running.advance(3)
        state, total = running.state, running.state.y.sum()
        for i, row in enumerate(running.arcs.sources):
            for place, j in enumerate(row):
                if j >= 0:
                    total += state.sum_y[j, 0] - state.seen_y[i, place, 0]
        assert total == pytest.approx(8, rel=1e-12)


def test_an_agents_time_is_the_largest_that_it_has_heard_of():
    running = events(RASGP(Diminishing(0.002, 0.1)), Simulated([1.0] * 4 + [5.0] * 4, (0.0, 3.0), 0.3))
    for _ in range(150):
        before = running.state.time.copy()
        (i,) = running.advance(1)
        heard = running.mailbox.time[i, : running.sources[i], 0]
        assert running.state.time[i, 0] == max(before[i, 0], heard.max()) + 1
        assert running.state.before[i, 0] == before[i, 0]
    assert (running.state.time[:, 0] > running.state.wakes + 1)[4:].any()  # who wakes rarely hears of others' wakes


def test_push_without_delay_is_a_loop_over_agents_in_turn():
    """Without losses sums are what plain push-sum sends; agents hear of all wakes but those of some after them."""
    x, y, w = np.ones((8, 5)), np.ones(8), np.ones((8, 5))
    waiting, masses = np.zeros((8, 5)), np.zeros(8)
    before, times = np.zeros(8, int), np.ones(8, int)
    heard = np.zeros((8, 8), int)
    steps = Diminishing(0.002, 0.1)
    for _ in range(15):
        for i in range(8):
            step = sum(steps(k) for k in range(before[i], times[i]))
            x[i] = C[i, i] * (x[i] - step * QUADRATICS.average_gradient(w)[i])
            y[i] *= C[i, i]
            for j in DIRECTED.successors(i):
                waiting[j] += x[i]
                masses[j] += y[i]
                heard[j, i] = times[i]
            x[i], y[i], waiting[i], masses[i] = x[i] + waiting[i], y[i] + masses[i], 0, 0
            w[i] = x[i] / y[i]
            before[i], times[i] = times[i], max(times[i], heard[i].max()) + 1
    running = events(RASGP(steps), Simulated())
    while running.done < 15 * 8:
        running.advance(1)
    np.testing.assert_allclose(running.state.w, w, rtol=1e-10)


@pytest.mark.slow
def test_push_comes_to_the_optimum_with_falling_steps():
    late, errors = Simulated((0.5, 1.5), (0.0, 2.0), 0.3), []
    for rounds in (500, 2000):
        solver = RASGP(InverseSqrt(0.1 / (8 * L)))
        result = consensus.solve(QUADRATICS, DIRECTED, solver, rounds=rounds, engine=late, record_every=rounds)
        errors.append(abs(result.w - OPTIMUM).max())
    assert errors[1] < 0.5 * errors[0] < 0.05


@pytest.mark.parametrize("solver", [AsynchronousDGD(0.02, batch=3), RASGP(Diminishing(0.02, 0.1), batch=3)], ids=repr)
def test_batches_are_of_an_agent_s_own_wakes(tmp_path, solver):
    whole, network = problem(scheme="iid"), NETWORK if isinstance(solver, AsynchronousDGD) else CIRCLE
    late = Simulated((0.5, 1.5), (0.0, 2.0), 0.1)
    options = {"engine": late, "record_every": 3}
    once = consensus.solve(whole, network, solver, rounds=12, **options)
    consensus.solve(whole, network, solver, rounds=6, checkpoint=tmp_path / "run", **options)
    again = consensus.solve(whole, network, solver, rounds=12, resume=tmp_path / "run", **options)
    assert again.w.tobytes() == once.w.tobytes()
    assert once.history["samples"][-1] < 0.5 * 60 * 12
    schedule = network if network is NETWORK else topologies.Static(network, weights=topologies.push)
    running = Events(whole, schedule, solver, Timetable.of(late, schedule), np.ones((AGENTS, 5)))
    while running.done < 40:
        running.advance(1)
    np.testing.assert_array_equal(running.state.wakes, running.number)


# AD-PSGD, an event of two agents, and overlap SGP, whose messages are added up.


def meetings(solver, simulated):
    whole = problem()
    start = np.random.default_rng(0).standard_normal((AGENTS, whole.parameters))
    return whole, Meetings(whole, NETWORK, solver, Timetable.of(simulated, NETWORK), start)


def test_two_agents_take_their_mean_and_one_of_them_steps_along_its_stale_gradient():
    whole, running = meetings(ADPSGD(0.05), Simulated([1.0, 1.5, 2.0, 1.1, 0.7, 1.3]))
    for _ in range(50):
        before, copies = running.state.w.copy(), running.state.copy.copy()
        (i,) = running.advance(1)
        (j,) = [k for k in range(AGENTS) if k != i and (running.state.w[k] != before[k]).any()]
        assert GRAPH.has_edge(i, j)
        mean = (before[i] + before[j]) / 2
        np.testing.assert_allclose(running.state.w[j], mean, rtol=1e-14)
        np.testing.assert_allclose(running.state.w[i], mean - 0.05 * whole.average_gradient(copies)[i], rtol=1e-12)
        np.testing.assert_array_equal(running.state.copy[i], running.state.w[i])
        np.testing.assert_array_equal(running.state.copy[j], copies[j])  # it computes on at its old copy


def test_an_exchange_takes_a_message_there_and_one_back():
    _, running = meetings(ADPSGD(0.05), Simulated(1.0, 0.25))
    times = []
    while running.number[2] < 5:
        (i,) = running.advance(1)
        times += [running.clock[2]] if i == 2 else []
    np.testing.assert_allclose(times, [1, 2.5, 4, 5.5, 7])


def test_if_a_message_is_lost_nobody_averages():
    _, running = meetings(ADPSGD(1e-9), Simulated(loss=0.5))
    still = 0
    for _ in range(400):
        before = running.state.w.copy()
        (i,) = running.advance(1)
        still += (np.delete(running.state.w, i, axis=0) == np.delete(before, i, axis=0)).all()
    assert still == sum(running.lost)
    assert 0.65 < still / 400 < 0.85  # one of two messages


def test_partners_are_drawn_evenly():
    _, running = meetings(ADPSGD(0.01), Simulated())
    met = {}
    for _ in range(3000):
        before = running.state.w.copy()
        (i,) = running.advance(1)
        for k in range(AGENTS):
            if k != i and (running.state.w[k] != before[k]).any():
                met[i, k] = met.get((i, k), 0) + 1
    for i in range(AGENTS):
        counts = [met[i, j] for j in GRAPH.neighbors(i)]
        assert min(counts) > 0.75 * sum(counts) / len(counts)


@pytest.mark.slow
def test_it_ends_near_the_optimum_in_proportion_to_the_step():
    whole = problem()
    errors = [
        consensus.solve(whole, NETWORK, ADPSGD(step), rounds=4000, engine=Simulated((0.5, 1.5)), record_every=4000).history[
            "stationarity"
        ][-1]
        for step in (0.02, 0.005)
    ]
    assert errors[1] < 0.35 * errors[0] < 0.35


def test_masses_of_overlap_sgp_are_kept_whatever_the_delays():
    running = events(OverlapSGP(0.01, every=2), Simulated((0.5, 1.5), (0.0, 10.0)))
    for _ in range(150):
        running.advance(3)
        on_their_way = sum(messages.mass[row, 0] for inbox in running.inbox for *_, messages, row in inbox)
        assert running.state.mass.sum() + on_their_way == pytest.approx(8, rel=1e-12)
    assert running.sent.sum() == pytest.approx(sum(DIRECTED.out_degree(i) * (running.number[i] // 2) for i in range(8)))


def test_overlap_sgp_without_delay_is_a_loop_over_agents_in_turn():
    x, mass, w = np.ones((8, 5)), np.ones(8), np.ones((8, 5))
    waiting = np.zeros((8, 6))
    for _ in range(15):
        for i in range(8):
            share = 1 / (1 + DIRECTED.out_degree(i))
            x[i], mass[i] = share * (x[i] - 0.01 * QUADRATICS.average_gradient(w)[i]), share * mass[i]
            for j in DIRECTED.successors(i):
                waiting[j] += [*x[i], mass[i]]
            x[i], mass[i], waiting[i] = x[i] + waiting[i, :5], mass[i] + waiting[i, 5], 0
            w[i] = x[i] / mass[i]
    running = events(OverlapSGP(0.01), Simulated())
    while running.done < 15 * 8:
        running.advance(1)
    np.testing.assert_allclose(running.state.w, w, rtol=1e-10)


@pytest.mark.slow
def test_overlap_sgp_ends_near_the_optimum_in_proportion_to_the_step():
    late, errors = Simulated(delay=(0.0, 5.0)), []
    for step in (0.001, 0.0005):
        result = consensus.solve(QUADRATICS, DIRECTED, OverlapSGP(step), rounds=4000, engine=late, record_every=4000)
        errors.append(abs(result.w - OPTIMUM).max())
    assert errors[1] < 0.65 * errors[0] < 0.2


@pytest.mark.parametrize("solver", [ADPSGD(0.02, batch=3), OverlapSGP(0.02, batch=3)], ids=repr)
def test_a_run_goes_on_from_a_checkpoint_with_equal_bits(tmp_path, solver):
    whole, options = problem(scheme="iid"), {"engine": Simulated((0.5, 1.5), (0.0, 2.0))}
    once = consensus.solve(whole, NETWORK, solver, rounds=12, **options)
    consensus.solve(whole, NETWORK, solver, rounds=5, checkpoint=tmp_path / "run", **options)
    again = consensus.solve(whole, NETWORK, solver, rounds=12, resume=tmp_path / "run", **options)
    assert again.w.tobytes() == once.w.tobytes()
    assert once.history["samples"][-1] < 0.5 * 60 * 12


def test_what_they_cannot_bear_is_refused():
    with pytest.raises(ValueError, match="OverlapSGP loses mass with each message: give loss=0"):
        consensus.solve(QUADRATICS, DIRECTED, OverlapSGP(0.01), rounds=1, engine=Simulated(loss=0.1))
    with pytest.raises(TypeError, match="AsyncProcesses has the newest message of each agent alone"):
        consensus.solve(QUADRATICS, DIRECTED, OverlapSGP(0.01), rounds=1, engine=AsyncProcesses(2))
    with pytest.raises(ValueError, match="ADPSGD averages with a neighbour: give a network of two agents or more"):
        ADPSGD(0.01).matrices(topologies.Static(nx.empty_graph(1)))


# Two agents that change at once: sums are kept by real workers, and no lock is lost with a process that dies or stops.

RING = topologies.Static(topologies.ring(8))
START = np.random.default_rng(0).standard_normal((8, 300))


def board_of(start, workers=3):
    matrices = ADPSGD(0.1).matrices(RING)
    state = ADPSGDState(start, start, np.zeros(8, int))
    return PairBoard(state, ["w"], arcs_of(*matrices, dtype=start.dtype), workers)


def average(board, agents, rows, place=0):
    (w,), _ = board.read(np.array(agents), slice(None))
    return board.commit(agents, rows, [np.tile(w.mean(axis=0), (len(w), 1))], place)


@pytest.mark.slow
def test_the_mean_is_kept_over_all_events_of_three_workers():
    free = consensus.Problem.from_functions(
        lambda w: 0 * w[:, 0], lambda w: 0 * w, agents=8, parameters=START.shape[1]
    )  # gradients of zero: all that happens is averaging
    result = consensus.solve(free, RING, ADPSGD(0.1), rounds=600, start=START, engine=AsyncProcesses(3), record_every=600)
    assert result.history["disagreement"][-1] < 1e-12 * result.history["disagreement"][0]
    np.testing.assert_allclose(result.w, np.tile(START.mean(axis=0), (8, 1)), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_end_where_all_costs_are_least(workers):
    """Costs with one minimiser, as how often agents wake is the machine's and weighs their costs."""
    least = np.arange(5.0)

    def value(w, rows):
        return np.einsum("ap,apq,aq->a", w - least, H[rows], w - least) / 2

    def gradient(w, rows):
        return np.einsum("apq,aq->ap", H[rows], w - least)

    whole = consensus.Problem.from_functions(value, gradient, agents=8, parameters=5)
    options = {"rounds": 10**6, "tolerance": 1e-10, "record_every": 100}
    for engine in (Simulated((0.5, 1.5)), AsyncProcesses(workers)):
        result = consensus.solve(whole, RING, ADPSGD(0.02), engine=engine, **options)
        np.testing.assert_allclose(result.w, np.tile(least, (8, 1)), atol=1e-9)
    history = result.history
    assert (np.diff(history["clock"]) > 0).all()
    assert (history["wakes"] >= 8 * history["round"]).all()
    assert history["wakes"][0] == history["lost"][0] == history["messages"][0] == 0
    assert (history["staleness"][1:] > 0).all()
    assert (np.diff(history["lost"]) >= 0).all()
    assert (history["lost"] <= history["messages"]).all()
    assert (history["wakes"] <= history["messages"]).all()
    np.testing.assert_array_equal(history["bytes"], 40 * history["messages"])


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_batches_of_the_same_samples_end_in_the_neighbourhood_of_the_simulated_clock(workers):
    """All agents have all samples, so that it does not matter how often each wakes."""
    X, y = data()
    shards = consensus.Shards.from_list([(X, y)] * 6)
    whole, options = (
        consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards),
        {"rounds": 600, "record_every": 10},
    )
    ends = []
    for engine in (Simulated((0.5, 1.5)), AsyncProcesses(workers)):
        result = consensus.solve(whole, topologies.ring(6), ADPSGD(0.05, batch=8), engine=engine, **options)
        ends.append(result.history["stationarity"][-30:].mean() / result.history["stationarity"][0])
    assert ends[0] < 0.02
    assert 0.3 < ends[1] / ends[0] < 3


def test_counts_are_those_of_messages_there_and_back():
    board = board_of(START)
    assert average(board, [0, 7], board.hold([0, 7], 0.0), place=1)
    assert average(board, [7, 6], board.hold([7, 6], 0.0), place=1)
    assert average(board, [3], board.hold_own(3), place=0)  # without its partner, agent 2
    np.testing.assert_array_equal(board.published, [1, 0, 0, 1, 0, 0, 0, 1])
    np.testing.assert_array_equal(board.lost, [0, 0, 0, 1, 0, 0, 0, 0])
    targets = np.repeat(np.arange(8), 2)
    sources = np.sort([[(i - 1) % 8, (i + 1) % 8] for i in range(8)], axis=1).ravel()
    found = {(j, i): count for j, i, count in zip(sources.tolist(), targets.tolist(), board.along, strict=True) if count}
    assert found == {(0, 7): 1, (7, 0): 1, (7, 6): 1, (6, 7): 1, (3, 2): 1}


def holding(board):
    """A process that is in the middle of averaging agents 2 and 3, and ends that when it is told."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()

    def meet():
        rows = board.hold([2, 3], 0.0)
        board._written(rows, [np.full((2, 300), np.nan)])
        there.send(True)
        there.recv()
        there.send(board.commit([2, 3], rows, [np.tile(START[2:4].mean(axis=0), (2, 1))], 0))

    process = context.Process(target=meet, daemon=True)
    process.start()
    assert here.recv()
    return process, here


def test_a_lock_of_a_killed_process_is_free_and_what_it_held_is_whole():
    board = board_of(START)
    process, _ = holding(board)
    assert board.hold([3, 4], 0.02) is None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    rows = board.hold([3, 4], 0.0)
    np.testing.assert_array_equal(rows, [3, 4])
    assert average(board, [3, 4], rows)
    (w,), _ = board.read(np.arange(8), slice(None))
    np.testing.assert_array_equal(np.delete(w, [3, 4], axis=0), np.delete(START, [3, 4], axis=0))
    np.testing.assert_allclose(w[[3, 4]], np.tile(START[3:5].mean(axis=0), (2, 1)), rtol=1e-14)


def test_an_agent_held_by_a_stopped_process_moves_and_that_one_changes_nothing_later(monkeypatch):
    monkeypatch.setattr(pair_board, "_STOPPED", 0.05)
    board = board_of(START)
    process, pipe = holding(board)
    os.kill(process.pid, signal.SIGSTOP)
    assert board.hold([3, 4], 0.02) is None  # a neighbour passes it over
    rows = board.hold_own(3)
    np.testing.assert_array_equal(rows, [3 + 8])
    assert board.commit([3], rows, [START[3:4] + 1], 0)  # its step without averaging
    assert average(board, [3, 4], board.hold([3, 4], 0.0))
    os.kill(process.pid, signal.SIGCONT)
    pipe.send(True)
    assert pipe.recv() is False
    process.join()
    (w,), _ = board.read(np.arange(8), slice(None))
    np.testing.assert_array_equal(w[2], START[2])
    np.testing.assert_allclose(w[[3, 4]], np.tile((START[3] + 1 + START[4]) / 2, (2, 1)), rtol=1e-14)
    assert board.hold([2, 3], 0.0) is not None


# Mailboxes are read once, after the gradient; what is sent may be a part of a state.


class Message(NamedTuple):
    w: np.ndarray


class State(NamedTuple):
    w: np.ndarray
    wakes: np.ndarray


@dataclass(frozen=True)
class SendsWhatItWas(AsynchronousSolver):
    """Counts its wakes, and sends the count before, which is its state itself."""

    needs = Needs(mixing="column stochastic", wakes=True)
    sends = "w"

    def init(self, problem, arcs, w):
        return State(0 * w, np.zeros(len(w), int)), Message(0 * w)

    def wake(self, problem, arcs, state, mailbox):
        return State(state.w + 1, state.wakes + 1), Message(state.w)


def test_a_message_may_be_a_part_of_the_state():
    running = events(SendsWhatItWas(), Simulated())
    for _ in range(3 * 8):
        running.advance(1)
    np.testing.assert_array_equal(running.state.w, 3.0)
    np.testing.assert_array_equal(running.mailbox.w[1, 0], 2.0)  # of agent 0, which was 2 when it woke for the third time


def test_it_is_read_once_when_the_first_field_is_asked_for():
    reads = []

    def read():
        reads.append(None)
        return Message(np.arange(3.0))

    mailbox = Mailbox(read)
    assert not reads
    np.testing.assert_array_equal(mailbox.w, [0, 1, 2])
    (w,) = mailbox
    assert w is mailbox[0] is mailbox.w
    assert len(mailbox) == 1
    assert mailbox._fields == ("w",)
    with pytest.raises(AttributeError, match="rho"):
        _ = mailbox.rho
    assert len(reads) == 1


@pytest.mark.parametrize(
    "solver",
    [STEPS, ASYSONATA(PartialLinearization(0.6), 0.2), RASGP(0.01), OverlapSGP(0.01), ADPSGD(0.01)],
    ids=["full", "partial", "RASGP", "OverlapSGP", "ADPSGD"],
)
def test_the_gradient_is_computed_before_messages_are_read(solver):
    running = events(solver, Simulated(), problem(), CIRCLE)
    (block,) = running.blocks.of([1])
    own, newest = (kind._make([value[1:2] for value in kind]) for kind in (running.state, running.mailbox))

    def read():
        assert block.problem.work.gradients == 1
        return newest

    before = block.problem.work.gradients
    late, _ = solver.wake(block.problem, block.arcs, own, Mailbox(read))
    assert block.problem.work.gradients == before + 1
    early, _ = solver.wake(block.problem, block.arcs, own, newest)
    np.testing.assert_array_equal(late.w, early.w)
