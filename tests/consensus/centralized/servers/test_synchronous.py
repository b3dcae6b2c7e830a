"""Systems that wait for all their workers: the same bits with any number of them, and batch gradient descent."""

import numpy as np
import pytest

import consensus
from consensus.centralized import Dask, Joblib, MapReduceGradientDescent, SynchronousSGD, solve
from consensus.problems import Minibatches
from tests.helpers.engine_harness import assert_same
from tests.helpers.turns import in_turn

pytestmark = pytest.mark.usefixtures("forked")
ROUNDS = 6


@pytest.fixture(scope="module")
def descended(problem, start, slope):
    """Batch gradient descent, by hand."""
    w = start
    for _ in range(ROUNDS):
        w = w - 0.5 * slope(w)
    return w


@pytest.mark.slow
def test_minibatch_steps_are_the_equation_with_any_number_of_workers(problem, start):
    one, *others = (solve(problem, SynchronousSGD(12, 0.3, 0.9, workers=k), rounds=ROUNDS, start=start) for k in (1, 2, 3))
    rule, w, v = Minibatches(2), start, 0
    for round in range(ROUNDS):
        v = 0.9 * v + problem.gradient(np.tile(w, (6, 1)), rule.at(problem, round)).sum(axis=0)
        w = w - 0.3 * (v + 0.01 * w)
    np.testing.assert_allclose(one.mean, w, rtol=1e-12)
    for run in others:
        assert_same(run, one)
    last, floats = one.history.last(), ROUNDS * 12 * problem.parameters
    assert (last["floats"], last["bytes"], last["bytes_busiest"]) == (floats, 8 * floats, 8 * floats)
    assert (last["gradients"], last["samples"], last["disagreement"]) == (ROUNDS, 12 * ROUNDS, 0)


def test_dropped_workers_leave_an_estimate_from_the_others_samples(problem, start):
    run = solve(problem, SynchronousSGD(60, 0.5, workers=3, drop_slowest=1), rounds=1, start=start)
    rows = problem.gradient(np.tile(start, (6, 1)), Minibatches(10).at(problem, 0))
    move, sizes = (start - run.mean) / 0.5 - 0.01 * start, problem.shards.sizes
    pairs = ([2, 3, 4, 5], [0, 1, 4, 5], [0, 1, 2, 3])  # three workers with two agents each, of which one is dropped
    estimates = [60 / sizes[kept].sum() * rows[kept].sum(axis=0) for kept in pairs]
    assert min(np.abs(move - estimate).max() for estimate in estimates) < 1e-12


@pytest.mark.parametrize(("workers", "reduce"), in_turn([1, 3, 5], ["flat", "tree"]))
def test_map_reduce_is_batch_gradient_descent(problem, start, descended, workers, reduce):
    run = solve(problem, MapReduceGradientDescent(0.5, workers, reduce), rounds=ROUNDS, start=start)
    np.testing.assert_allclose(run.mean, descended, rtol=1e-12, atol=1e-14)
    last, size = run.history.last(), 8 * ROUNDS * problem.parameters
    assert last["samples"] == 60 * ROUNDS
    assert last["bytes"] == 2 * (workers - 1) * size
    hops = {1: 0, 3: 2, 5: 3}[workers] if reduce == "tree" else workers - 1
    assert last["bytes_busiest"] == 2 * hops * size


@pytest.mark.parametrize("reduce", ["flat", "tree"])
@pytest.mark.parametrize("where", ["joblib", "distributed"])
def test_other_mappers_compute_the_same(problem, start, descended, reduce, where):
    library = pytest.importorskip(where)
    if where == "joblib":
        found = solve(problem, MapReduceGradientDescent(0.5, 3, reduce, on=Joblib(backend="threading")), rounds=6, start=start)
    else:
        with library.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
            found = solve(problem, MapReduceGradientDescent(0.5, 3, reduce, on=Dask(client)), rounds=ROUNDS, start=start)
    np.testing.assert_allclose(found.mean, descended, rtol=1e-12, atol=1e-14)


def test_a_regularizer_that_is_not_smooth_is_met_by_its_prox(problem, start):
    sparse = consensus.Problem(problem.model, problem.loss, problem.shards, consensus.L1(0.05))
    run = solve(sparse, MapReduceGradientDescent(0.5), rounds=1, start=start)
    moved = start - 0.5 * problem.total_gradient(start)
    np.testing.assert_allclose(run.mean, np.sign(moved) * np.maximum(np.abs(moved) - 0.025, 0), rtol=1e-12, atol=1e-15)
