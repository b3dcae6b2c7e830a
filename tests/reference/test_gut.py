"""GUT: its plain statement, the sum of its trackers, and the points where it comes to rest."""

import itertools

import numpy as np
import pytest

import consensus
from consensus import solvers
from tests.helpers.problems import problem
from tests.helpers.steps_by_hand import states
from tests.helpers.stochastic import FALLING, LAZY, RULE, assert_iterates, curved, rest_of_descent

P, W, a = curved(), LAZY.weights(0).toarray(), FALLING


@pytest.mark.parametrize("mu", [0.0, 0.6])
def test_it_follows_its_equation(mu):
    """Y is mixed by itself here, as in the paper."""

    def step(k, X, Y, D, before):
        own = P.average_gradient(W @ X, RULE.at(P, k)) + (X - W @ X) / a(k)
        Y = own + mu * (W @ Y - D + (before - W @ before) / a(max(k - 1, 0)))
        return X - a(k) * Y, Y, own, X

    assert_iterates(solvers.GUT(a, RULE, mu), P, LAZY, step, lambda X: (0 * X, 0 * X, X))


def test_trackers_have_the_sum_of_the_gradients_at_every_round():
    for one, after in itertools.pairwise(states(solvers.GUT(0.05, tracking=0.7), P, LAZY, 40)):
        y = (one.w - after.w) / 0.05
        np.testing.assert_allclose(y.sum(axis=0), P.average_gradient(W @ one.w).sum(axis=0), rtol=0, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.0, 0.5, 0.8])
def test_it_rests_where_descent_with_a_shorter_step_does(mu):
    p = problem("squared", consensus.L2(0.1))
    *_, last = states(solvers.GUT(0.05, tracking=mu), p, LAZY, 4000)
    np.testing.assert_allclose(W @ last.w, rest_of_descent(p, W, (1 - mu) * 0.05), rtol=0, atol=1e-10)


def test_without_tracking_it_is_descent_at_mixed_points():
    *_, last = states(solvers.GUT(0.05, tracking=0.0), P, LAZY, 10)
    X = next(states(solvers.GUT(0.05), P, LAZY, 0)).w
    for _ in range(10):
        X = W @ X - 0.05 * P.average_gradient(W @ X)
    np.testing.assert_allclose(last.w, X, rtol=0, atol=1e-12)
