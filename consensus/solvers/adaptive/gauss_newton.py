"""The Gauss-Newton curvature of the agents' own costs, and how far it is to be trusted."""

from collections.abc import Callable

import numpy as np

from consensus._parallel import for_chunks
from consensus.local.operators import rooted_rows, times_root, times_root_transposed
from consensus.problems import Problem

Test = Callable[[slice, Callable[[np.ndarray], np.ndarray], np.ndarray], None]

_FORMED = 1 << 22  # numbers in a Jacobian that is worth forming


def products(problem: Problem, w: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """J_i' S_i J_i Omega, shape (agents, P, count), of every agent's own cost at w (agents, P).

    S_i is the curvature of the loss, weights included; ``basis`` Omega (P, count).
    """
    shards, model = problem.shards, problem.model
    numbers, count = shards.features.shape[1] * model.outputs * problem.parameters, basis.shape[1]
    formed = hasattr(model, "jacobian") and numbers <= _FORMED
    result = np.empty((problem.agents, problem.parameters, count), problem.dtype)

    def chunk(rows):
        outputs, linearization = problem.linearize(w, rows)
        root = problem.loss.curvature_root(outputs, shards.targets[rows])
        scale = np.sqrt(problem.weights[rows])
        root = root * scale.reshape(*scale.shape, *(1,) * (root.ndim - 2))
        if formed:
            R = rooted_rows(root, linearization.jacobian())
            np.matmul(R.swapaxes(1, 2), R @ basis, out=result[rows])
            return
        for k in range(count):
            direction = np.broadcast_to(basis[:, k], (len(outputs), problem.parameters))
            image = times_root(root, times_root_transposed(root, linearization.jvp(direction)))
            result[rows, :, k] = linearization.vjp(image)

    touched = 2 * numbers * problem.dtype.itemsize if formed else _bytes(problem)
    for_chunks(chunk, problem.agents, touched, 2 * numbers * count)
    return result


def exact(problem: Problem) -> bool:
    """Whether an own cost is its Gauss-Newton model: with the squared loss of a linear model."""
    return getattr(problem.model, "jacobian_is_constant", False) and problem.loss.quadratic


def each_own_model(problem: Problem, w: np.ndarray, test: Test) -> None:
    """Call ``test(rows, error, rounding)`` for slices of agents that cover all of them.

    ``error(d)`` is A times the distance, at w + d, of the own cost from its own Gauss-Newton model around w, both with d
    (agents, P); ``rounding`` is what of it may be rounding; both of shape (agents,).
    """
    for_chunks(lambda rows: test(rows, *_own_model(problem, w, rows)), len(w), _bytes(problem))


def _own_model(problem, w, rows):
    model, loss, weights = problem.model, problem.loss, problem.weights[rows]
    features, targets = problem.shards.features[rows], problem.shards.targets[rows]
    outputs, linearization = problem.linearize(w, rows)
    values, slopes, root = loss.value(outputs, targets), loss.gradient(outputs, targets), loss.curvature_root(outputs, targets)

    def error(d):
        a = linearization.jvp(d)
        modelled = (slopes * a + np.square(times_root_transposed(root, a)) / 2).sum(axis=2)
        true = loss.value(model.predict(w[rows] + d, features), targets) - values
        return problem.network_size * np.abs(np.vecdot(true - modelled, weights))

    # Differences of costs are not known better than this: near the optimum the test would compare digits that are lost.
    rounding = 10 * np.finfo(w.dtype).eps * problem.network_size * np.abs(np.vecdot(values, weights))
    return error, rounding


def _bytes(problem):
    """What a pass through the model touches for an agent."""
    widths = sum(getattr(problem.model, "widths", (problem.model.outputs,)))
    return 3 * problem.shards.features.shape[1] * widths * problem.dtype.itemsize
