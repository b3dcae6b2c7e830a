"""Servers with asynchronous workers, Downpour, and a coordinator with L-BFGS, Sandblaster."""

import itertools
import multiprocessing
import os
import signal
import time

import numpy as np
import pytest
from scipy.optimize import minimize

import consensus
from consensus.asynchronous.locks import Locks
from consensus.centralized import DownpourSGD, SandblasterLBFGS, solve
from consensus.checkpoints.checkpoint import load
from consensus.problems import Minibatches
from consensus.servers import pool
from consensus.servers.downpour import Board, ParameterServer, _go, turn
from consensus.servers.pool import WorkerDied
from consensus.servers.sandblaster import Portions, two_loops
from consensus.workers.blocks import blocks_by_load
from consensus.workers.shared_memory import SharedArray

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]
SYSTEM = SandblasterLBFGS(2, portions=5, shards=2, memory=4)
ROUNDS = 12


@pytest.fixture(scope="module")
def whole(problem, start):
    with pytest.MonkeyPatch.context() as patch:
        fork = multiprocessing.get_context("fork")
        patch.setattr(multiprocessing, "get_context", lambda method=None: fork)
        return solve(problem, SYSTEM, rounds=ROUNDS, record_every=1, start=start)


def test_the_direction_by_inner_products_is_that_of_the_two_loops():
    rng = np.random.default_rng(0)
    s, g = rng.standard_normal((3, 6)), rng.standard_normal(6)
    y = s @ np.diag(np.arange(1.0, 7))
    basis = np.concatenate([s, y, g[None]])
    q, alpha = g.copy(), np.zeros(3)
    for k in (2, 1, 0):
        alpha[k] = s[k] @ q / (s[k] @ y[k])
        q -= alpha[k] * y[k]
    q *= s[2] @ y[2] / (y[2] @ y[2])
    for k in range(3):
        q += (alpha[k] - y[k] @ q / (s[k] @ y[k])) * s[k]
    np.testing.assert_allclose(two_loops(basis @ basis.T) @ basis, -q, rtol=1e-10)


def test_it_ends_where_scipys_ends_with_about_as_many_gradients(problem):
    line = consensus.Problem(consensus.Linear(3), problem.loss, problem.shards, problem.regularizer)
    start = np.full(4, 3.0)
    slope = lambda w: line.total_gradient(w) + line.regularizer.gradient(w[None])[0]  # noqa: E731
    least = minimize(line.objective, start, jac=slope, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-9})
    run = solve(line, SYSTEM, rounds=40, record_every=1, start=start, tolerance=1e-8)
    assert run.reason.startswith("stationarity")
    np.testing.assert_allclose(run.mean, least.x, atol=1e-7)
    assert run.history["gradients"][-1] <= 1.5 * least.nfev + 3
    again = solve(line, SYSTEM, rounds=3, start=run.mean)  # nothing better is to be found, and nothing breaks
    assert again.history["objective"][-1] <= again.history["objective"][0]


def test_every_step_satisfies_the_strong_wolfe_conditions(problem, start, slope):
    points = []
    solve(problem, SYSTEM, rounds=ROUNDS, record_every=1, start=start, callbacks=[lambda seen: points.append(seen.mean)])
    assert len(points) == ROUNDS + 1
    for before, after in itertools.pairwise(points):
        move = after - before
        assert problem.objective(after) <= problem.objective(before) + 1e-4 * move @ slope(before) + 1e-15
        assert abs(move @ slope(after)) <= 0.9 * abs(move @ slope(before))


@pytest.mark.parametrize("replicas", [1, 3])
def test_the_bits_do_not_depend_on_who_computes_what(problem, start, whole, replicas):
    run = solve(problem, SandblasterLBFGS(replicas, 5, 2, 4), rounds=ROUNDS, start=start)
    np.testing.assert_array_equal(run.w, whole.w)
    assert whole.history["objective"][-1] < 0.2 * whole.history["objective"][0]


def test_a_late_replica_changes_no_column_but_that_of_copies_and_a_killed_one_no_bit(problem, start, whole, pids):
    def signals(seen):
        for round, number in {5: signal.SIGSTOP, 7: signal.SIGCONT, 10: signal.SIGKILL}.items():
            if seen.round == round:
                os.kill(pids[0][1], number)

    run = solve(problem, SYSTEM, rounds=ROUNDS, record_every=1, start=start, callbacks=[signals])
    np.testing.assert_array_equal(run.w, whole.w)
    assert run.history["duplicated"][9] > 0
    for name in set(run.history) - {"seconds", "duplicated"}:
        np.testing.assert_array_equal(run.history[name][:10], whole.history[name][:10], err_msg=name)
    np.testing.assert_array_equal(run.history["samples"], 60 * run.history["gradients"])


@pytest.mark.parametrize(("victims", "who"), [(0, "replica"), (1, "shard")])
def test_without_replicas_or_a_shard_it_ends_with_a_checkpoint(problem, start, whole, pids, victims, who, tmp_path):
    def kill(seen):
        if seen.round == 5:
            for pid in pids[victims]:
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(consensus.WorkerError, match=who):
        solve(problem, SYSTEM, rounds=ROUNDS, record_every=1, start=start, callbacks=[kill], checkpoint=tmp_path / "run")
    again = solve(problem, SYSTEM, rounds=ROUNDS, start=start, resume=tmp_path / "run")
    np.testing.assert_array_equal(again.w, whole.w)


class Script:
    """A pool whose workers answer in the order of a script: a number of a worker, negative if it dies."""

    pids = (100, 101, 102)

    def __init__(self, *script):
        self.alive, self.busy, self.script, self.work, self.asked = {0, 1, 2}, set(), list(script), {}, [0, 0, 0]

    def submit(self, worker, portion, slot):
        assert slot not in [other for _, other in self.work.values()], "two write to one slot"
        self.busy.add(worker)
        self.asked[worker] += 1
        self.work[worker] = portion, slot

    def result(self):
        worker = self.script.pop(0)
        self.busy.discard(abs(worker))
        portion, _ = self.work.pop(abs(worker))
        if worker < 0:
            self.alive.discard(-worker)
            raise WorkerDied(-worker)
        return worker, (10.0**portion, 1)


def test_faster_replicas_get_more_and_the_slowest_portion_is_computed_twice():
    script = Script(0, 0, 0, 0, 0, 1, 2, 0, 1, 2, 0, 1)
    portions = Portions(script, 5)
    value, slots = portions.evaluate()
    assert (value, len(set(slots))) == (11111, 5)
    assert (script.asked, portions.samples) == ([5, 1, 1], 5)  # the others are still at what was done by now
    assert (portions.duplicated, script.busy) == (2, {1, 2})
    assert portions.evaluate()[0] == 11111  # their late answers come first, and do not count
    assert (portions.samples, portions.moves, portions.most) == (10, 2 * (3 + 5), 2 * (1 + 2))


def test_the_portion_of_a_dead_replica_is_handed_to_another():
    portions = Portions(Script(-1, 0, 2, 0, 2, 0), 4)
    assert portions.evaluate()[0] == 1111
    assert portions.samples == 4


# DownpourSGD: its equation, an interleaving replayed by hand, and what becomes of a run whose replicas die.


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
