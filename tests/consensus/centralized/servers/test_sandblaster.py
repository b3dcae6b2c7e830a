"""SandblasterLBFGS: its direction, its end against SciPy's, who computes what, and what becomes of a run whose parts die."""

import itertools
import multiprocessing
import os
import signal

import numpy as np
import pytest
from scipy.optimize import minimize

import consensus
from consensus.centralized import SandblasterLBFGS, solve
from consensus.servers.pool import WorkerDied
from consensus.servers.sandblaster import Portions, two_loops

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
