"""The Gauss-Newton curvature of the local costs, and how far it is to be trusted."""

from collections.abc import Callable
from typing import Any

import numpy as np

from consensus._arrays.parallel import CHUNK_BYTES, for_chunks
from consensus._arrays.sparse import SparseRows
from consensus.local.operators import rooted_rows, times_root, times_root_transposed
from consensus.local.subproblem import weighted_root
from consensus.models.linearization import linearize
from consensus.problems import Linearizable

Error = Callable[[np.ndarray], np.ndarray]

_TANGENTS = 1 << 24  # bytes of tangents that go through sparse features together
_FORMED = 1 << 22  # numbers in a Jacobian that is worth forming


def products(problem: Linearizable, w: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return J_i' S_i J_i Omega, shape (agents, P, count), of every agent's local cost at w (agents, P).

    S_i is the curvature of the loss, weights included; ``basis`` Omega (P, count). A Jacobian that is not too large is formed.
    A larger one is applied to the directions, as many at a time as fit into cache; where the model cannot share its forward
    pass between these products, it is formed for some samples at a time.
    """
    model, (samples, count) = problem.model, (problem.shards.features.shape[1], basis.shape[1])
    numbers = model.outputs * problem.parameters  # in the Jacobian of a sample
    result = np.empty((*w.shape, count), problem.dtype, like=w)

    def formed(rows: slice) -> None:
        for first in range(0, samples, portion):
            root, linearization = _rooted(problem, w, rows, slice(first, first + portion))
            R = rooted_rows(root, linearization.jacobian())
            if first == 0:
                np.matmul(R.swapaxes(1, 2), R @ basis, out=result[rows])
            else:
                result[rows] += R.swapaxes(1, 2) @ (R @ basis)

    def applied(rows: slice) -> None:
        root, linearization = _rooted(problem, w, rows, slice(samples))
        directions, root = np.broadcast_to(basis.T, (len(root), *basis.T.shape)), root[:, None]
        for first in range(0, count, several):
            some = slice(first, first + several)
            image = times_root(root, times_root_transposed(root, linearization.jvp(directions[:, some])))
            result[rows, :, some] = linearization.vjp(image).swapaxes(1, 2)

    if model.linearize and not (model.jacobian and samples * numbers <= _FORMED):
        sparse = isinstance(problem.shards.features, SparseRows)  # a pass touches tangents more than features
        room = _TANGENTS // (problem.parameters * problem.dtype.itemsize) if sparse else CHUNK_BYTES // max(1, _bytes(problem))
        several = max(1, min(count, room))
        for_chunks(applied, problem.agents, several * _bytes(problem), 2 * samples * numbers * count)
    else:
        portion = max(1, min(samples, _FORMED // numbers))
        touched = 2 * portion * numbers * problem.dtype.itemsize
        for_chunks(formed, problem.agents, touched, 2 * samples * numbers * count)
    return result


def _rooted(problem: Linearizable, w: np.ndarray, rows: slice, samples: slice) -> tuple[np.ndarray, Any]:
    """Return a root of the loss's curvature, weights included, and the model's linearization with its optional methods."""
    shards = problem.shards
    outputs, linearization = linearize(problem.model, w[rows], shards.features[rows, samples])
    return weighted_root(problem.loss, outputs, shards.targets[rows, samples], problem.weights[rows, samples]), linearization


def exact(problem: Linearizable) -> bool:
    """Return whether every local cost is its Gauss-Newton model: with the squared loss of a linear model."""
    return problem.model.jacobian_is_constant and problem.loss.quadratic


def each_local_model(problem: Linearizable, w: np.ndarray, test: Callable[[slice, Error, np.ndarray], None]) -> None:
    """Call ``test(rows, error, rounding)`` for slices of agents that cover all of them.

    ``error(d)`` is A times the distance, at w + d, of the local cost from its Gauss-Newton model around w, both with d
    (agents, P); ``rounding`` is what of it may be rounding; both of shape (agents,).
    """
    streamed = 3 * problem.shards.features.nbytes // problem.agents  # as often as they are in what is touched
    for_chunks(lambda rows: test(rows, *_local_model(problem, w, rows)), len(w), _bytes(problem), streamed=streamed)


def _local_model(problem: Linearizable, w: np.ndarray, rows: slice) -> tuple[Error, np.ndarray]:
    model, loss, weights = problem.model, problem.loss, problem.weights[rows]
    features, targets = problem.shards.features[rows], problem.shards.targets[rows]
    outputs, linearization = problem.linearize(w, rows)
    values, slopes, root = loss.value(outputs, targets), loss.gradient(outputs, targets), loss.curvature_root(outputs, targets)

    def error(d: np.ndarray) -> np.ndarray:
        a = linearization.jvp(d)
        modelled = (slopes * a + np.square(times_root_transposed(root, a)) / 2).sum(axis=2)
        change = loss.value(model.predict(w[rows] + d, features), targets) - values
        far: np.ndarray = problem.network_size * np.abs(np.vecdot(change - modelled, weights))
        return far

    # Differences of costs are not known better than this: near the optimum the test would compare digits that are lost.
    rounding = 10 * np.finfo(w.dtype).eps * problem.network_size * np.abs(np.vecdot(values, weights))
    return error, rounding


def _bytes(problem: Linearizable) -> int:
    """Return how much a pass through the model touches for an agent: nothing here, if its features are on a device."""
    x, widths = problem.shards.features, sum(problem.model.widths or (problem.model.outputs,))
    return int(3 * x.shape[1] * widths * problem.dtype.itemsize) if x.nbytes else 0
