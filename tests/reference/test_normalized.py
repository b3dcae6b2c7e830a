"""Normalized gradient tracking: its plain statement, its laws, and noise without a variance."""

import numpy as np
import pytest

import consensus
import topologies
from consensus import solvers
from tests.helpers.steps_by_hand import states
from tests.helpers.stochastic import FALLING, LAZY, RULE, assert_equal_methods, assert_iterates, curved

P, W, a = curved(), LAZY.weights(0).toarray(), FALLING


def G(X, k):
    return P.average_gradient(X, RULE.at(P, k))


@pytest.mark.parametrize("floor", [0.0, 0.4])
def test_it_follows_its_equation(floor):
    beta = 0.8

    def step(k, X, Y, V):
        new = beta * V + (1 - beta) * G(X, k)
        Y = W @ (Y + new - V)
        return W @ np.array([x - a(k) * y / max(np.sqrt(y @ y), floor) for x, y in zip(X, Y, strict=True)]), Y, new

    solver = solvers.Normalized(a, RULE, beta, floor)
    assert_iterates(solver, P, LAZY, step, lambda X: (0 * X, 0 * X))


def test_trackers_have_the_sum_of_the_averages_and_steps_one_length():
    for state in states(solvers.Normalized(a, RULE), P, LAZY, 30):
        np.testing.assert_allclose(state.ahead.sum(axis=0), state.v.sum(axis=0), rtol=0, atol=1e-12)
    w = np.random.default_rng(0).standard_normal((6, P.parameters))
    y = 10.0 ** np.arange(-3, 3)[:, None] * np.random.default_rng(1).standard_normal(w.shape)
    steps = solvers.Normalized(0.1)._moved(w, y, 0.1) - w
    np.testing.assert_allclose(np.linalg.norm(steps, axis=1), 0.1, rtol=1e-12)
    np.testing.assert_array_equal(solvers.Normalized(0.1)._moved(w, 0 * y, 0.1), w)


def test_under_a_high_floor_it_is_gradient_tracking():
    """That of the estimates of GT-HSGD with beta = 1, which are the gradients."""
    one, other = solvers.Normalized(0.5, momentum=0.0, floor=100.0), solvers.GTHSGD(0.005, beta=1.0)
    assert_equal_methods(P, (one, LAZY), (other, LAZY))


def test_one_sample_without_a_variance_moves_an_agent_by_a_step():
    """A target of 10^4 throws gradient tracking away for ever; here the agents come back."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.standard_normal(400)
    y[7] = 1e4
    shards = consensus.partition(X, y, agents=5, seed=0)
    problem = consensus.Problem(consensus.Linear(2, bias=False), consensus.SquaredLoss(), shards)
    options = {"rounds": 800, "record_every": 100, "start": np.zeros(2)}
    found = consensus.solve(problem, topologies.ring(5), solvers.Normalized(0.02, 2, 0.5), **options).mean
    thrown = consensus.solve(problem, topologies.ring(5), solvers.GradientTracking(0.02, batch=2), **options).mean
    assert np.linalg.norm(found - [1, -2]) < 0.1
    assert np.linalg.norm(thrown - [1, -2]) > 10
