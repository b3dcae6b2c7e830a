"""What solve does with a server as without one: how runs end before their last round, and which arguments are errors."""

import gc
import os
import signal
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import consensus
from consensus import centralized
from consensus.centralized import DownpourSGD, FedAvg, MapReduceGradientDescent, SandblasterLBFGS, SynchronousSGD, solve
from tests.helpers.engine_harness import Traces, assert_same, names_by_prefix, semaphores
from tests.helpers.turns import with_slow

SYSTEM = FedAvg(0.2, 2)
FEDERATED = {"learning_rate": 0, "local_steps": 0, "batch": 0, "share": 1.5, "seed": -1}
WRONG = {  # settings that are right, and one wrong value for each of the others
    "SynchronousSGD": ({"batch": 8, "learning_rate": 0.1}, {"batch": 0, "learning_rate": 0, "momentum": 1, "drop_slowest": 1}),
    "MapReduceGradientDescent": ({"learning_rate": 0.1}, {"reduce": "ring"}),
    "Joblib": ({}, {"jobs": 0}),
    "DownpourSGD": (
        {"replicas": 2},
        {"fetch": 0, "push": 0, "shards": 0, "seed": -1, "learning_rate": 0, "batch": 0, "warm_start": -1, "adagrad": 1},
    ),
    "SandblasterLBFGS": ({"replicas": 2}, {"replicas": 0, "portions": 0, "shards": 0, "memory": 0}),
    "SplitMLP": ({"widths": [5, 7, 6, 2], "workers": 2}, {"workers": 8, "activation": "step"}),
    "FedAvg": ({"learning_rate": 0.1}, FEDERATED),
    "SCAFFOLD": ({"learning_rate": 0.1}, FEDERATED | {"server_rate": 0}),
    "FedAdam": ({"learning_rate": 0.1}, FEDERATED | {"server_rate": 0, "betas": (0.9, 1.0), "tau": -1}),
}


def test_ctrl_c_gives_the_result_so_far_and_a_checkpoint_goes_on(problem, start, tmp_path):
    def stop(seen):
        if seen.round == 3:
            raise KeyboardInterrupt

    path = tmp_path / "run"
    with pytest.raises(consensus.Interrupted, match="resume=") as caught:
        solve(problem, SYSTEM, rounds=6, record_every=1, start=start, callbacks=[stop], checkpoint=path, every=2)
    partial = caught.value.result
    assert (partial.rounds, partial.reason) == (3, "stopped by the user")
    np.testing.assert_array_equal(partial.w, solve(problem, SYSTEM, rounds=3, start=start).w)
    again = solve(problem, SYSTEM, rounds=6, start=start, resume=path)
    np.testing.assert_array_equal(again.w, solve(problem, SYSTEM, rounds=6, start=start).w)
    with pytest.raises(ValueError, match="rounds must be at least the checkpoint's, 2; got 1"):
        solve(problem, SYSTEM, rounds=1, start=start, resume=path)
    with pytest.raises(ValueError, match="a checkpoint of another run: solver: "):
        solve(problem, FedAvg(0.1, 2), rounds=6, start=start, resume=path)


def test_a_callback_ends_it_with_its_reason_or_an_error_that_has_the_history(problem, start):
    def end(seen):
        return "enough" if seen.round == 4 else None

    def fail(seen):
        if seen.round == 2:
            raise LookupError("of the user's")

    run = solve(problem, SYSTEM, rounds=6, record_every=1, start=start, callbacks=[end])
    assert (run.rounds, run.reason) == (4, "enough")
    with pytest.raises(LookupError, match="of the user's") as caught:
        solve(problem, SYSTEM, rounds=6, record_every=1, start=start, callbacks=[fail])
    assert caught.value.history["round"].tolist() == [0, 1, 2]


def test_an_error_in_a_worker_is_raised_here(forked):
    def gradient(w):
        raise FileNotFoundError("the data are gone")

    broken = consensus.Problem.from_functions(lambda w: w.sum(axis=1), gradient, 2, 3)
    with pytest.raises(FileNotFoundError, match="the data are gone"):
        solve(broken, MapReduceGradientDescent(0.1), rounds=1, start=np.ones(3))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings_are_errors_by_name(name):
    right, wrong = WRONG[name]
    for setting, value in wrong.items():
        with pytest.raises((ValueError, TypeError), match=rf"{setting}(\[1\])? must be"):
            getattr(centralized, name)(**right | {setting: value})


def test_incompatible_arguments_are_errors_before_any_work(problem, start, forked):
    costs = consensus.Problem.from_functions(lambda w: w.sum(axis=1), lambda w: w, 2, 3)
    sparse = consensus.Problem(problem.model, problem.loss, problem.shards, consensus.L1(0.1))
    descent = MapReduceGradientDescent(0.1)
    for other, system, given, message in (
        (costs, SynchronousSGD(8, 0.1), None, "minibatches need a problem with samples"),
        (problem, MapReduceGradientDescent(0.1, 7), None, "workers must be at most the problem's agents, 6; got 7"),
        (problem.restrict(slice(0, 3)), descent, None, "a server needs all of them"),
        (problem, DownpourSGD(7), None, "replicas must be at most the problem's agents, 6; got 7"),
        (problem, DownpourSGD(1, shards=99), None, "shards must be at most the problem's parameters, 21; got 99"),
        (problem, SandblasterLBFGS(2, 7), None, "portions must be at most the problem's agents, 6; got 7"),
        (sparse, SYSTEM, None, "FedAvg needs a smooth regularizer"),
        (sparse, SandblasterLBFGS(2), None, "SandblasterLBFGS needs a smooth regularizer"),
        (problem, descent, np.tile(start, (6, 1)), r"the server has one; got \(6, 21\)"),
        (problem, "sgd", None, "system must be a system"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            solve(other, system, rounds=1, start=given)
    with pytest.raises(consensus.DivergenceError):
        solve(problem, MapReduceGradientDescent(1e30), rounds=20, start=start)


@pytest.mark.slow
def test_a_worker_that_starts_afresh_gives_the_same_bits(problem, start, pids, request):
    system = MapReduceGradientDescent(0.5, workers=1)
    afresh = solve(problem, system, rounds=3, start=start)
    assert [len(each) for each in pids] == [1]
    request.getfixturevalue("forked")
    np.testing.assert_array_equal(solve(problem, system, rounds=3, start=start).w, afresh.w)


# What becomes of a run when a worker process is killed while it computes, and that nothing of it stays behind.

ROUNDS = 6
DIED = r"worker \d \(process \d+\) died \(exit code -9\)"
ENDING = {
    "synchronous": (SynchronousSGD(12, 0.3, 0.9, workers=2), DIED),
    "map-reduce": (MapReduceGradientDescent(0.5, 3), DIED),
    "over a tree": (MapReduceGradientDescent(0.5, 3, "tree"), DIED),
}
GOING_ON = {
    "Downpour": DownpourSGD(3, shards=2, seed=0, warm_start=0),
    "Downpour, unseeded": DownpourSGD(3),
    "Sandblaster": SandblasterLBFGS(2, 5),
}


@dataclass(frozen=True)
class Deadly(consensus.SquaredLoss):
    """The squared loss; the first worker process to ask for a gradient while there is a file at ``path`` dies of it."""

    path: str = ""
    parent: int = 0

    def gradient(self, outputs, targets):
        if os.getpid() != self.parent and os.path.exists(self.path):
            try:
                os.unlink(self.path)
            except FileNotFoundError:  # another one has just died
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().gradient(outputs, targets)


@pytest.fixture
def deadly(problem, tmp_path):
    loss = Deadly(str(tmp_path / "die"), os.getpid())
    return consensus.Problem(problem.model, loss, problem.shards, problem.regularizer)


def condemn(seen):
    if seen.round == 3:
        Path(seen.problem.loss.path).touch()


@pytest.fixture
def nothing_left(forked, pids, monkeypatch):
    before, traces = descriptors(), Traces(mark := uuid.uuid4().hex)
    monkeypatch.setitem(*semaphores(mark))
    monkeypatch.setattr(*names_by_prefix())
    yield
    assert descriptors() <= before
    assert traces.left() == set()


def descriptors():
    """How many files of shared memory are open here."""
    gc.collect()
    folder = Path("/proc/self/fd")
    links = [os.path.realpath(path) for path in folder.iterdir()] if folder.is_dir() else []
    return sum("memfd:consensus" in link for link in links)


def ends_with_a_checkpoint(problem, start, system, path, message, kill=condemn):
    with pytest.raises(consensus.WorkerError, match=message) as caught:
        solve(problem, system, rounds=ROUNDS, record_every=1, start=start, callbacks=[kill], checkpoint=path, every=100)
    assert caught.match(r"the run cannot go on .*resume=path")
    assert caught.value.history["round"].tolist() == [0, 1, 2, 3]
    again = solve(problem, system, rounds=ROUNDS, record_every=1, start=start, resume=path)
    assert_same(again, solve(problem, system, rounds=ROUNDS, record_every=1, start=start))


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", ENDING)
def test_systems_that_need_all_workers_end_with_a_clear_error_and_a_checkpoint(deadly, start, name, tmp_path):
    system, message = ENDING[name]
    ends_with_a_checkpoint(deadly, start, system, tmp_path / "run", message)


@pytest.mark.slow
def test_so_does_a_map_reduce_over_joblib(deadly, start, tmp_path):
    from joblib.externals.loky import get_reusable_executor

    system = MapReduceGradientDescent(0.5, 3, on=centralized.Joblib(2))
    ends_with_a_checkpoint(deadly, start, system, tmp_path / "run", "a worker of joblib's died")
    get_reusable_executor().shutdown(wait=True)  # joblib keeps its workers for the next call


@pytest.mark.slow
def test_and_one_over_dask(deadly, start, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(n_workers=1, threads_per_worker=1, dashboard_address=None) as client:  # no copies of its data
        system = MapReduceGradientDescent(0.5, 3, on=centralized.Dask(client))
        ends_with_a_checkpoint(deadly, start, system, tmp_path / "run", "a worker of Dask's died with its part of the data")


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_and_a_federated_run_of_a_split_network(problem, start, tmp_path, pids):
    def kill(seen):
        if seen.round == 3 and len(pids) == 1:
            os.kill(pids[0][1], signal.SIGKILL)

    with centralized.SplitMLP([3, 4, 1], 2) as model:
        split = consensus.Problem(model, problem.loss, problem.shards, problem.regularizer)
        ends_with_a_checkpoint(split, start, centralized.FedAvg(0.2, 2), tmp_path / "run", r"worker 1 .* died", kill)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_and_one_of_a_layer_parallel_network(problem, tmp_path, pids):
    """The states that slabs keep are not in the checkpoint: resumed, the run is the same to rounding if gradients are exact."""

    def kill(seen):
        if seen.round == 3 and len(pids) == 1:
            os.kill(pids[0][1], signal.SIGKILL)

    with centralized.LayerParallel(consensus.models.ResNet(3, 4, 8, 1), 2, 2, levels=2) as model:
        split = consensus.Problem(model, problem.loss, problem.shards, problem.regularizer)
        system, path, settings = centralized.FedAvg(0.2, 2), tmp_path / "run", {"rounds": ROUNDS, "record_every": 1, "seed": 1}
        with pytest.raises(consensus.WorkerError, match=r"slab 1 \(process \d+\) died .*cannot go on.*resume=") as caught:
            solve(split, system, callbacks=[kill], checkpoint=path, every=100, **settings)
        assert caught.value.history["round"].tolist() == [0, 1, 2, 3]
        again = solve(split, system, resume=path, **settings)
        np.testing.assert_allclose(again.w, solve(split, system, **settings).w, rtol=1e-10, atol=1e-13)


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("name", with_slow(GOING_ON, "Downpour, unseeded", "Sandblaster"))
def test_the_others_go_on(deadly, start, name):
    run = solve(deadly, GOING_ON[name], rounds=ROUNDS, record_every=1, start=start, callbacks=[condemn])
    assert not os.path.exists(deadly.loss.path), "one has died"
    assert run.rounds == ROUNDS
    assert run.history["objective"][-1] < run.history["objective"][3]
    if isinstance(GOING_ON[name], SandblasterLBFGS):
        np.testing.assert_array_equal(run.w, solve(deadly, GOING_ON[name], rounds=ROUNDS, start=start).w)
