"""Two agents that change at once: sums are kept by real workers, and no lock is lost with a process that dies or stops."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

import consensus
import topologies
from consensus.asynchronous import ADPSGD, AsyncProcesses, Simulated, pair_board
from consensus.asynchronous.ad_psgd import ADPSGDState
from consensus.asynchronous.arcs import arcs_of
from consensus.asynchronous.pair_board import PairBoard
from tests.helpers.problems import data
from tests.helpers.unlike_quadratics import H

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
