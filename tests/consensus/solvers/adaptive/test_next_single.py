"""In single precision AdaptiveNEXT does what it does in double, to a hundredth."""

import numpy as np
import pytest
from problems import AGENTS, SCHEDULES, data

import consensus
import topologies
from consensus.solvers import AdaptiveNEXT

MANY = 257


def run(dtype, schedule, loss, model, agents=AGENTS, rounds=25):
    X, y = data(samples=max(60, agents))
    targets = y if loss.quadratic else (y > 0.2).astype(int)
    shards = consensus.partition(X.astype(dtype), targets.astype(dtype), agents, "sorted", seed=0)
    problem = consensus.Problem(model, loss, shards, consensus.L2(0.02))
    start = 0.3 * np.random.default_rng(0).standard_normal(problem.parameters)
    return consensus.solve(problem, schedule, AdaptiveNEXT(), rounds=rounds, start=start)


CASES = {
    "network": (SCHEDULES["static"], consensus.SquaredLoss(), consensus.MLP([4, 3, 1])),
    "linear": (topologies.ring(AGENTS), consensus.SquaredLoss(), consensus.Linear(4)),
    "logistic, path": (topologies.path(AGENTS), consensus.LogisticLoss(), consensus.Linear(4)),
    "changing": (SCHEDULES["random"], consensus.LogisticLoss(), consensus.Linear(4)),
    "classes": (topologies.ring(AGENTS), consensus.CrossEntropy(), consensus.MLP([4, 3, 2])),
    "directed": (SCHEDULES["directed"], consensus.LogisticLoss(), consensus.Linear(4)),
    "many": (topologies.random_regular(MANY, 4, seed=0), consensus.LogisticLoss(), consensus.Linear(4), MANY),
}


@pytest.mark.parametrize("name", CASES)
def test_both_precisions_come_to_the_same_within_a_hundredth(name):
    double, single = (run(dtype, *CASES[name]) for dtype in (np.float64, np.float32))
    assert single.w.dtype == np.float32
    objectives = [result.history["objective"] for result in (double, single)]
    assert objectives[0][-1] < 0.9 * objectives[0][0]
    np.testing.assert_allclose(objectives[1][[10, -1]], objectives[0][[10, -1]], rtol=0.01)
    np.testing.assert_array_equal(single.history["exchanges"], double.history["exchanges"])
