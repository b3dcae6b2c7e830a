"""The fits against least squares of another library, one agent at a time and all together."""

import numpy as np
import pytest
from exchanges import COMMON
from scipy.linalg import lstsq

from consensus.engines.stacked import StackedNetwork
from consensus.solvers.adaptive import chebyshev, fit


def drawn(agents, exchanges, probes, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((agents, exchanges + 1, probes)), rng.standard_normal(probes)


def system(probes, goal):
    """The columns and the right-hand side of one agent's least squares."""
    return np.diff(probes, axis=0).T, goal - probes[-1]


@pytest.mark.parametrize(("exchanges", "probes"), [(1, 8), (3, 8), (8, 8), (5, 3)])
def test_an_agents_own_fit_is_least_squares(exchanges, probes):
    seen, goal = drawn(4, exchanges, probes)
    b, misfit = fit.own(seen, goal)
    for agent in range(4):
        columns, right = system(seen[agent], goal)
        expected = lstsq(columns, right)[0]  # of least length where there are more coefficients than probes
        np.testing.assert_allclose(b[agent], expected, rtol=0, atol=1e-10)
        left = np.linalg.norm(columns @ expected - right)
        assert misfit[agent] == pytest.approx(left, abs=1e-12)


def test_directions_that_rounding_decides_are_left_out():
    seen, goal = drawn(1, 2, 6)
    seen[0, 2] = seen[0, 1] + (seen[0, 1] - seen[0, 0]) * (1 + 1e-9)  # the second step is the first one again
    b, _ = fit.own(seen, goal)
    assert np.abs(b).max() < 10
    assert np.abs(fit.own(seen, goal, cut=1e-15)[0]).max() < 10  # exactly dependent: any cut
    seen[0, 2, 0] += 1e-9
    assert np.abs(fit.own(seen, goal)[0]).max() < 10
    assert np.abs(fit.own(seen, goal, cut=1e-15)[0]).max() > 1e6


def test_an_agent_alone_has_nothing_to_fit():
    b, misfit = fit.own(np.ones((1, 3, 1)), np.ones(1))
    assert (b == 0).all()
    assert (misfit == 0).all()


@pytest.mark.parametrize("probes", [8, 3])
@pytest.mark.parametrize("name", ["ring", "path"])
def test_one_polynomial_is_least_squares_over_all_agents(name, probes):
    """On the probes themselves, though moments are all that it knows of them."""
    schedule, K = COMMON[name], 2
    start = np.random.default_rng(0).standard_normal((schedule.agents, probes))
    network, history = StackedNetwork(schedule, np.float64), [start]
    products = [fit.neighbours(start, start)[:, :1]]
    for k in range(K):
        history.append(chebyshev.exchange(network, k, history))
        products.append(fit.neighbours(*history[-2:]))
    moments = fit.moments(np.concatenate(products, axis=1)).sum(axis=0)
    goal = start.mean(axis=0)
    b, misfit = fit.polynomial(moments, schedule.agents * goal @ goal, np.finfo(float).eps)
    systems = [system(np.array([x[agent] for x in history]), goal) for agent in range(schedule.agents)]
    columns, right = (np.concatenate(part) for part in zip(*systems, strict=True))
    expected = lstsq(columns, right)[0]
    np.testing.assert_allclose(b, expected, rtol=0, atol=1e-10)
    assert misfit == pytest.approx(np.linalg.norm(columns @ expected - right) / np.linalg.norm(goal - start), rel=1e-8)
