"""What every system learns of scikit-learn's digits, against SciPy's L-BFGS on the same cost."""

import numpy as np
import pytest
from scipy.optimize import minimize

import consensus
from consensus import centralized

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]
WIDTHS, POINTS = [64, 64, 10], 0.015
SYSTEMS = {  # and rounds
    "synchronous": (centralized.SynchronousSGD(100, 0.1, 0.9, workers=2), 90),
    "map-reduce": (centralized.MapReduceGradientDescent(1.0, workers=2), 90),
    "over a tree": (centralized.MapReduceGradientDescent(1.0, 3, "tree"), 90),
    "joblib": (centralized.MapReduceGradientDescent(1.0, 2, on=centralized.Joblib(2, "threading")), 90),
    "Downpour": (centralized.DownpourSGD(2, shards=2, seed=0), 120),
    "Downpour, unseeded": (centralized.DownpourSGD(2), 120),
    "Sandblaster": (centralized.SandblasterLBFGS(2, shards=2), 20),
    "FedAvg": (centralized.FedAvg(0.2, 10, batch=30), 50),
    "SCAFFOLD": (centralized.SCAFFOLD(0.2, 10, batch=30), 50),
    "FedAdam": (centralized.FedAdam(0.1, 10, batch=30, server_rate=0.02), 30),
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
    assert error(by_lbfgs(problem, 2)) > 0.05
    return min(0.05, error(by_lbfgs(problem, 200)) + POINTS)


@pytest.mark.parametrize("name", [*SYSTEMS, "Dask"])
def test_it_learns_as_well_as_scipys_lbfgs(digits, allowed, name):
    problem, error = digits
    if name == "Dask":
        distributed = pytest.importorskip("distributed")
        with distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
            system = centralized.MapReduceGradientDescent(1.0, 2, on=centralized.Dask(client))
            found = centralized.solve(problem, system, rounds=90, record_every=90)
    else:
        system, rounds = SYSTEMS[name]
        found = centralized.solve(problem, system, rounds=rounds, record_every=rounds)
    assert error(found.mean) <= allowed


def test_so_does_a_split_network(digits, allowed):
    problem, error = digits
    with centralized.SplitMLP(WIDTHS, 2) as model:
        split = consensus.Problem(model, problem.loss, problem.shards, problem.regularizer)
        assert error(by_lbfgs(split, 40)) <= allowed
