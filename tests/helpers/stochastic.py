"""What tests of stochastic and of compressed methods share: a problem, settings, comparisons round by round."""

import numpy as np

import consensus
import topologies
from consensus import Minibatches
from consensus.step_sizes import InverseSqrt
from tests.helpers.problems import problem
from tests.helpers.steps_by_hand import MLP, SCHEDULES, states

RULE = Minibatches(3, seed=2)
LAZY = topologies.Static(SCHEDULES["static"].graph(0), weights=topologies.lazy(topologies.metropolis))
FALLING = InverseSqrt(0.05)


def curved(model=MLP):
    """A neural network on shards of 4, 16, 9, 11, 7 and 13 samples."""
    return problem("squared", consensus.L2(0.01), model, scheme="sizes")


def assert_iterates(solver, problem, network, step, others, rounds=30, atol=1e-12):
    """Compare with ``step(round, X, *others) -> (X, *others)``, round by round; ``others(X)`` is what there is at the start."""
    found = [state.w for state in states(solver, problem, network, rounds)]
    plain = (found[0], *others(found[0]))
    for round, w in enumerate(found):
        np.testing.assert_allclose(w, plain[0], rtol=0, atol=atol)
        plain = step(round, *plain)


def assert_equal_methods(problem, one, other, rounds=30):
    """Both of ``one`` and ``other`` are a solver and a network, on which it has the iterates of the other one."""
    paths = (states(solver, problem, network, rounds) for solver, network in (one, other))
    for mine, theirs in zip(*paths, strict=True):
        np.testing.assert_allclose(mine.w, theirs.w, rtol=0, atol=1e-12)


def rest_of_descent(problem, W, alpha, outer=None):
    """The fixed point of ``X = W X - alpha M G(X)`` for quadratic costs, M = W unless ``outer`` is given: a linear system."""
    shape, outer = (problem.agents, problem.parameters), W if outer is None else outer
    constant = problem.average_gradient(np.zeros(shape))

    def residual(X):
        """The linear part of ``X - W X + alpha M G(X)``."""
        return X - W @ X + alpha * outer @ (problem.average_gradient(X) - constant)

    matrix = np.array([residual(unit.reshape(shape)).ravel() for unit in np.eye(np.prod(shape))]).T
    return np.linalg.solve(matrix, -alpha * (outer @ constant).ravel()).reshape(shape)
