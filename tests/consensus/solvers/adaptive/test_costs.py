"""The local costs make up U, but for a regularizer that is not quadratic."""

import numpy as np
import pytest
from problems import AGENTS, problem
from scipy.optimize import approx_fprime

import consensus
from consensus.solvers.adaptive.costs import Costs, costs, gradient, quadratic_weight, track


@pytest.mark.parametrize("regularizer", [None, consensus.L2(0.3), consensus.L1(0.3), consensus.SCAD(0.1)], ids=str)
def test_their_sum_is_the_objective_without_what_is_not_quadratic(regularizer):
    p = problem("logistic", regularizer)
    point = np.random.default_rng(0).standard_normal(p.parameters)
    found = costs(p, np.tile(point, (AGENTS, 1)))
    rest = 0 if p.regularizer.quadratic else p.regularizer.value(point)
    assert found.cost.sum() + rest == pytest.approx(p.objective(point), rel=1e-14)
    assert quadratic_weight(p) == (0.3 if isinstance(regularizer, consensus.L2) else 0)


@pytest.mark.parametrize("regularizer", [None, consensus.L2(0.3), consensus.L1(0.3)], ids=str)
def test_gradients_are_theirs(regularizer):
    p = problem("logistic", regularizer)
    w = np.random.default_rng(0).standard_normal((AGENTS, p.parameters))
    found = costs(p, w)
    np.testing.assert_array_equal(found.gradient, gradient(p, w))
    for agent in range(AGENTS):

        def cost(point, agent=agent):
            stack = w.copy()
            stack[agent] = point
            return costs(p, stack).cost[agent]

        np.testing.assert_allclose(found.gradient[agent], approx_fprime(w[agent], cost, 1e-7), rtol=0, atol=1e-6)


def test_trackers_keep_their_sum():
    rng = np.random.default_rng(0)
    tracked, new, old = (Costs(rng.standard_normal(4), rng.standard_normal((4, 3))) for _ in range(3))
    for mine, mixed, now, then in zip(track(tracked, new, old), tracked, new, old, strict=True):
        np.testing.assert_allclose(mine.sum(axis=0), (mixed + now - then).sum(axis=0), rtol=0, atol=1e-14)
