"""What every system learns of scikit-learn's digits, against SciPy's L-BFGS on the same cost."""

import numpy as np
import pytest
from scipy.optimize import minimize

import consensus
from consensus.centralised import (
    SCAFFOLD,
    Dask,
    DownpourSGD,
    FedAdam,
    FedAvg,
    Joblib,
    MapReduceGradientDescent,
    SandblasterLBFGS,
    SplitMLP,
    SynchronousSGD,
    solve,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]
WIDTHS, POINTS = [64, 64, 10], 0.015
SYSTEMS = {  # and rounds
    "synchronous": (SynchronousSGD(100, 0.1, 0.9, workers=2), 90),
    "map-reduce": (MapReduceGradientDescent(1.0, workers=2), 90),
    "over a tree": (MapReduceGradientDescent(1.0, 3, "tree"), 90),
    "joblib": (MapReduceGradientDescent(1.0, 2, on=Joblib(2, "threading")), 90),
    "Downpour": (DownpourSGD(2, shards=2, seed=0), 120),
    "Downpour, unseeded": (DownpourSGD(2), 120),
    "Sandblaster": (SandblasterLBFGS(2, shards=2), 20),
    "FedAvg": (FedAvg(0.2, 10, batch=30), 50),
    "SCAFFOLD": (SCAFFOLD(0.2, 10, batch=30), 50),
    "FedAdam": (FedAdam(0.1, 10, batch=30, server_rate=0.02), 30),
}


@pytest.fixture(scope="module")
def digits():
    """The problem, and the share of wrong labels in the test part, a function of the model's parameters."""
    data = consensus.datasets.split(*consensus.datasets.load("digits"), classification=True)
    shards = consensus.partition(data.X, data.y, agents=10, seed=0)
    problem = consensus.Problem(consensus.MLP(WIDTHS), consensus.CrossEntropy(), shards, consensus.L2(1e-3))
    return problem, lambda w: np.mean(problem.model.predict(w, data.X_test).argmax(axis=1) != np.ravel(data.y_test))


def by_lbfgs(problem, iterations):
    def cost(w):
        return problem.objective(w), problem.total_gradient(w) + problem.regularizer.gradient(w[None])[0]

    start = problem.model.init(np.random.default_rng(0))
    return minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations}).x


@pytest.fixture(scope="module")
def allowed(digits):
    problem, error = digits
    return error(by_lbfgs(problem, 200)) + POINTS


def test_the_bound_tells_who_has_learned(digits, allowed):
    problem, error = digits
    assert allowed < 0.05 < error(by_lbfgs(problem, 2))


@pytest.mark.parametrize("name", SYSTEMS)
def test_it_learns_as_well_as_scipys_lbfgs(digits, allowed, name):
    problem, error = digits
    system, rounds = SYSTEMS[name]
    assert error(solve(problem, system, rounds=rounds, record_every=rounds).mean) <= allowed


def test_so_does_a_map_reduce_over_dask(digits, allowed):
    distributed = pytest.importorskip("distributed")
    problem, error = digits
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
        system = MapReduceGradientDescent(1.0, 2, on=Dask(client))
        assert error(solve(problem, system, rounds=90, record_every=90).mean) <= allowed


def test_so_does_a_split_network(digits, allowed):
    problem, error = digits
    with SplitMLP(WIDTHS, 2) as model:
        split = consensus.Problem(model, problem.loss, problem.shards, problem.regularizer)
        assert error(by_lbfgs(split, 40)) <= allowed
