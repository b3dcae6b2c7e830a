"""What becomes of a run when a worker process is killed while it computes, and that nothing of it stays behind."""

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
from consensus.centralized import DownpourSGD, MapReduceGradientDescent, SandblasterLBFGS, SynchronousSGD, solve
from tests.helpers.engine_harness import Traces, assert_same, names_by_prefix, semaphores
from tests.helpers.turns import with_slow

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
