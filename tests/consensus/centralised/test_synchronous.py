"""Systems that wait for all their workers: the same bits with any number of them, and batch gradient descent."""

import numpy as np
import pytest

import consensus
from consensus import L1
from consensus.centralised import Dask, Joblib, MapReduceGradientDescent, SynchronousSGD, solve
from consensus.problems import Minibatches
from consensus.workers.blocks import blocks_by_load

pytestmark = pytest.mark.usefixtures("forked")
ROUNDS = 6


@pytest.fixture(scope="module")
def descended(problem, start, slope):
    """Batch gradient descent, by hand."""
    w = [start]
    for _ in range(ROUNDS):
        w.append(w[-1] - 0.5 * slope(w[-1]))
    return w


def test_minibatch_steps_are_the_equation_with_any_number_of_workers(problem, start):
    runs = [solve(problem, SynchronousSGD(12, 0.3, 0.9, workers=k), rounds=ROUNDS, start=start) for k in (1, 2, 3)]
    rule, w, v = Minibatches(2), start, 0
    for round in range(ROUNDS):
        batch = rule.at(problem, round)
        v = 0.9 * v + problem.gradient(np.tile(w, (6, 1)), batch).sum(axis=0)
        w = w - 0.3 * (v + 0.01 * w)
    for run in runs:
        np.testing.assert_array_equal(run.w, runs[0].w)
        for name in set(run.history) - {"seconds"}:
            np.testing.assert_array_equal(run.history[name], runs[0].history[name])
    np.testing.assert_allclose(runs[0].mean, w, rtol=1e-12)
    last, floats = runs[0].history.last(), ROUNDS * 12 * problem.parameters
    assert (last["floats"], last["bytes"], last["bytes_busiest"]) == (floats, 8 * floats, 8 * floats)
    assert (last["gradients"], last["samples"], last["disagreement"]) == (ROUNDS, 12 * ROUNDS, 0)


def test_dropped_workers_leave_an_estimate_from_the_others_samples(problem, start):
    run = solve(problem, SynchronousSGD(60, 0.5, workers=3, drop_slowest=1), rounds=1, start=start)
    rows = problem.gradient(np.tile(start, (6, 1)), Minibatches(10).at(problem, 0))
    move, sizes = (start - run.mean) / 0.5 - 0.01 * start, problem.shards.sizes
    blocks = [slice(0, 2), slice(2, 4), slice(4, 6)]
    estimates = []
    for dropped in range(3):
        kept = np.concatenate([np.arange(6)[block] for k, block in enumerate(blocks) if k != dropped])
        estimates.append(60 / sizes[kept].sum() * rows[kept].sum(axis=0))
    assert blocks == blocks_by_load(problem.load, 3)
    assert min(np.abs(move - estimate).max() for estimate in estimates) < 1e-12


@pytest.mark.parametrize("reduce", ["flat", "tree"])
@pytest.mark.parametrize("workers", [1, 3, 5])
def test_map_reduce_is_batch_gradient_descent(problem, start, descended, workers, reduce):
    run = solve(problem, MapReduceGradientDescent(0.5, workers, reduce), rounds=ROUNDS, start=start)
    np.testing.assert_allclose(run.mean, descended[-1], rtol=1e-12, atol=1e-14)
    last, size = run.history.last(), 8 * ROUNDS * problem.parameters
    assert last["samples"] == 60 * ROUNDS
    assert last["bytes"] == 2 * (workers - 1) * size
    hops = {1: 0, 3: 2, 5: 3}[workers] if reduce == "tree" else workers - 1
    assert last["bytes_busiest"] == 2 * hops * size


@pytest.mark.parametrize("reduce", ["flat", "tree"])
def test_joblib_computes_the_same(problem, start, descended, reduce):
    system = MapReduceGradientDescent(0.5, 3, reduce, on=Joblib(backend="threading"))
    np.testing.assert_allclose(solve(problem, system, rounds=ROUNDS, start=start).mean, descended[-1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("reduce", ["flat", "tree"])
def test_dask_computes_the_same(problem, start, descended, reduce):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
        system = MapReduceGradientDescent(0.5, 3, reduce, on=Dask(client))
        found = solve(problem, system, rounds=ROUNDS, start=start).mean
    np.testing.assert_allclose(found, descended[-1], rtol=1e-12, atol=1e-14)


def test_a_regularizer_that_is_not_smooth_is_met_by_its_prox(problem, start):
    sparse = consensus.Problem(problem.model, problem.loss, problem.shards, L1(0.05))
    run = solve(sparse, MapReduceGradientDescent(0.5), rounds=1, start=start)
    moved = start - 0.5 * problem.total_gradient(start)
    np.testing.assert_allclose(run.mean, np.sign(moved) * np.maximum(np.abs(moved) - 0.025, 0), rtol=1e-12, atol=1e-15)


def test_an_error_in_a_worker_is_raised_here(start):
    def gradient(w):
        raise FileNotFoundError("the data are gone")

    broken = consensus.Problem.from_functions(lambda w: w.sum(axis=1), gradient, 2, 3)
    with pytest.raises(FileNotFoundError, match="the data are gone"):
        solve(broken, MapReduceGradientDescent(0.1), rounds=1, start=np.ones(3))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SynchronousSGD(0, 0.1), "batch must be a whole number >= 1; got 0"),
        (lambda: SynchronousSGD(8, -0.1), "learning_rate must be"),
        (lambda: SynchronousSGD(8, 0.1, 1.0), "momentum must be"),
        (lambda: SynchronousSGD(8, 0.1, workers=2, drop_slowest=2), "drop_slowest must be"),
        (lambda: MapReduceGradientDescent(0.1, reduce="ring"), "reduce must be one of 'flat', 'tree'; got 'ring'"),
        (lambda: Joblib(jobs=0), "jobs must be"),
    ],
)
def test_wrong_settings_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_does_not_fit_is_refused_before_any_work(problem, start):
    costs = consensus.Problem.from_functions(lambda w: w.sum(axis=1), lambda w: w, 2, 3)
    with pytest.raises(TypeError, match="minibatches need a problem with samples"):
        solve(costs, SynchronousSGD(8, 0.1), rounds=1)
    with pytest.raises(ValueError, match="workers must be at most the problem's agents, 6; got 7"):
        solve(problem, MapReduceGradientDescent(0.1, 7), rounds=1)
    with pytest.raises(ValueError, match="a server needs all of them"):
        solve(problem.restrict(slice(0, 3)), MapReduceGradientDescent(0.1), rounds=1)
    with pytest.raises(ValueError, match=r"the server has one; got \(6, 21\)"):
        solve(problem, MapReduceGradientDescent(0.1), rounds=1, start=np.tile(start, (6, 1)))
    with pytest.raises(TypeError, match="system must be a system"):
        solve(problem, "sgd", rounds=1)
    with pytest.raises(consensus.DivergenceError):
        solve(problem, MapReduceGradientDescent(1e30), rounds=20, start=start)
