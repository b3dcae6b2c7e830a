"""DownpourSGD: its equation, an interleaving replayed by hand, and what becomes of a run whose replicas die."""

import itertools
import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

import consensus
from consensus.asynchronous.locks import Locks
from consensus.centralized import DownpourSGD, solve
from consensus.checkpoints.checkpoint import load
from consensus.problems import Minibatches
from consensus.servers import pool
from consensus.servers.downpour import Board, ParameterServer, _go, turn
from consensus.workers.blocks import blocks_by_load
from consensus.workers.shared_memory import SharedArray

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]
SEEDED = DownpourSGD(3, fetch=2, push=3, shards=2, seed=7, learning_rate=0.1, batch=12)


def by_hand(problem, start, system, rounds):
    """The run of a seeded system, one step after the other; w, the staleness of all pushes, replicas' steps, samples."""
    w, sums, version, stale = start.copy(), np.zeros_like(start), 0, []
    blocks = [problem.restrict(rows) for rows in blocks_by_load(problem.load, system.replicas)]
    own = [{"x": None, "a": 0.0, "seen": 0, "done": 0} for _ in blocks]
    own[0]["x"] = w.copy()
    for step in range(rounds * system.replicas):
        if step == system.replicas * system.warm_start:  # the others join
            for replica in own[1:]:
                replica |= {"x": w.copy(), "seen": version}
        warm = step < system.replicas * system.warm_start
        number = 0 if warm else turn(system.seed, step, np.ones(system.replicas))
        replica, block = own[number], blocks[number]
        batch = Minibatches(-(-system.batch // block.agents), system.seed).at(block, replica["done"])
        slope = 60 / block.shards.sizes.sum() * block.gradient(np.tile(replica["x"], (block.agents, 1)), batch).sum(axis=0)
        slope = slope + 0.01 * replica["x"]
        replica["a"], replica["x"] = replica["a"] + slope, replica["x"] - system.learning_rate * slope
        replica["done"] += 1
        if replica["done"] % system.push == 0:
            sums += replica["a"] ** 2
            w = w - system.learning_rate * replica["a"] / np.sqrt(sums)
            stale.append(version - replica["seen"])
            replica["a"], version = 0.0, version + 1
        if replica["done"] % system.fetch == 0:
            replica |= {"x": w.copy(), "seen": version}
    return w, stale, np.array([replica["done"] for replica in own]), sum(block.work.samples for block in blocks)


def test_a_seeded_interleaving_is_that_by_hand_however_it_is_observed(problem, start, pids):
    w, stale, steps, samples = by_hand(problem, start, SEEDED, 12)
    run = solve(problem, SEEDED, rounds=12, start=start, record_every=12)
    np.testing.assert_allclose(run.mean, w, rtol=1e-10, atol=1e-13)
    last = run.history.last()
    assert max(stale) > 1
    assert last["staleness"] == pytest.approx(np.mean(stale), rel=1e-12)
    assert last["staleness_worst"] == max(stale)
    assert last["messages"] % 2 == 0
    assert last["bytes"] == 8 * last["floats"] == 8 * problem.parameters * last["messages"] // 2
    assert last["bytes"] > last["bytes_busiest"] >= last["bytes"] / 2
    assert last["gradients"] == steps.max()  # those of the busiest replica
    assert samples <= last["samples"] <= samples + 3 * 12  # each has computed its next gradient
    np.testing.assert_array_equal(solve(problem, SEEDED, rounds=12, start=start, record_every=5).w, run.w)


def test_it_goes_on_from_a_checkpoint_to_the_bit(problem, start, tmp_path):
    options = {"start": start, "record_every": 12}
    begun = solve(problem, SEEDED, rounds=5, **options, checkpoint=tmp_path / "run").history["gradients"][-1]
    run = solve(problem, SEEDED, rounds=12, **options, resume=tmp_path / "run", checkpoint=tmp_path / "run")
    whole = solve(problem, SEEDED, rounds=12, **options, checkpoint=tmp_path / "whole")
    np.testing.assert_array_equal(run.w, whole.w)
    assert run.history["bytes"][-1] == whole.history["bytes"][-1]
    early, late = (by_hand(problem, start, SEEDED, rounds)[2] for rounds in (5, 12))
    assert (begun, run.history["gradients"][-1]) == (early.max(), early.max() + (late - early).max())
    fields, wholes = (load(tmp_path / name).fields for name in ("run", "whole"))
    for name in ("versions", "seen"):
        np.testing.assert_array_equal(fields[name], wholes[name])
    assert (fields["versions"] >= fields["seen"].max(axis=1)).all()
    assert fields["versions"].min() > 1


def test_every_shard_counts_its_own_updates():
    """A shard that a replica fetched before another's push is late by that push; the others are not."""
    zeros, seen = np.zeros(7), np.zeros(3, np.int64)
    server = ParameterServer.of(zeros, zeros, np.array([4, 2, 9]), 0.1, False)
    server.fetch(np.empty(7), seen)
    assert seen.tolist() == [4, 2, 9]
    server.versions.array[...] += [1, 0, 3]
    assert server.push(np.ones(7), seen).tolist() == [1, 0, 3]
    assert server.versions.array.tolist() == [6, 3, 13]


@pytest.mark.parametrize("begun", [0, 1])
def test_a_step_that_a_dead_replica_had_begun_is_another_ones(problem, begun):
    """As many steps are taken as are finished; else the others would wait for one that nobody takes."""
    zeros = np.zeros(problem.parameters)
    server = ParameterServer.of(zeros, zeros, np.zeros(1, np.int64), 0.1, True)
    board = Board.of(3, 1, problem.agents, problem.parameters, problem.dtype)
    board.alive.array[...], board.owner.array[...] = 1, [0, 0, 1, 1, 2, 2]
    board.finished.array[...] = board.taken.array[...] = [5, 4, 6]
    board.taken.array[1] += begun

    class Dying:
        alive, busy = {0, 1, 2}, set()

        def submit(self, worker):
            self.busy.add(worker)

        def result(self):
            self.busy.remove(worker := max(self.busy))
            if worker == 1:
                self.alive.remove(1)
                raise pool.WorkerDied(1)

    _go(Dying(), board, server)
    assert board.taken.array.tolist() == board.finished.array.tolist() == [5, 4, 6]
    assert board.alive.array.tolist() == [1, 0, 1]
    assert sorted(board.owner.array.tolist()) == [0, 0, 0, 2, 2, 2]
    assert board.generation.array[0] == 1


@pytest.mark.parametrize("adagrad", [True, False])
def test_one_replica_is_gradient_descent_on_minibatches(problem, start, adagrad):
    w, sums = start, 0.0
    for round in range(5):
        slope = problem.gradient(np.tile(w, (6, 1)), Minibatches(10).at(problem, round)).sum(axis=0) + 0.01 * w
        sums = sums + slope**2
        w = w - 0.2 * (slope / np.sqrt(sums) if adagrad else slope)
    run = solve(problem, DownpourSGD(1, adagrad=adagrad, learning_rate=0.2, batch=60), rounds=5, start=start)
    np.testing.assert_allclose(run.mean, w, rtol=1e-10, atol=1e-13)
    assert run.history["staleness_worst"].max() == 0


@pytest.mark.parametrize("system", [SEEDED, DownpourSGD(3, shards=2)], ids=["seeded", "free"])
def test_killed_replicas_do_not_stop_the_run_and_their_data_are_handed_on(problem, start, system, pids):
    """The first dies while it alone trains; with two of three dead, one has all data."""

    def kill(seen):
        if seen.round in (0, 40):
            os.kill(pids[0][seen.round // 20], signal.SIGKILL)

    run = solve(problem, system, rounds=160, start=start, callbacks=[kill], record_every=40)
    assert run.rounds == 160
    assert run.history["objective"][-1] < 0.6 * run.history["objective"][1] or run.history["objective"][-1] < 0.06
    before, after = run.history["samples"][-2:]
    assert after > before
    # One replica with six agents draws two of each: twelve a step of 40 rounds with three steps each, up to an epoch's rest.
    if system is SEEDED:
        assert 0.8 * 12 * 120 < after - before <= 12 * 120 + 12


def test_without_any_replica_it_ends(problem, start, pids):
    def kill(seen):
        for pid in itertools.chain(*pids):
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(consensus.WorkerError, match=r"replica . .* died"):
        solve(problem, SEEDED, rounds=3, record_every=1, start=start, callbacks=[kill])


def test_a_lock_of_a_killed_process_is_free_again():
    locks, context = Locks(SharedArray((2,), np.uint8)), multiprocessing.get_context("fork")
    taken = context.Event()

    def hold():
        with locks.held(1):
            taken.set()
            time.sleep(60)

    holder = context.Process(target=hold)
    holder.start()
    assert taken.wait(10)
    with locks.held(0):  # another one is free
        pass
    holder.kill()
    with locks.held(1):
        holder.join()
    assert holder.exitcode == -signal.SIGKILL
