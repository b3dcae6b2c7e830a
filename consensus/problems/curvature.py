"""Eigenvalues of the curvature of a model's costs."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from consensus._arrays.parallel import for_chunks
from consensus._arrays.sparse import SparseRows
from consensus.models.linearization import linearize
from consensus.problems.samples import SampleSums

_STEPS = 50  # of the power method; each costs as much as two gradients
_FORMED = 1000  # order of products of sparse rows that are formed
_ROUNDING = 1e-12  # smaller eigenvalues, relative to the largest, are zero


def spectrum_ends(problem: SampleSums, design: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest eigenvalue (agents,) of ``sum_m weights_m p_m p_m'``, p_m the rows of the ``design``."""
    x, weights, width = problem.shards.features, problem.weights, problem.model.parameters // problem.model.outputs
    agents, samples = x.shape[:2]
    ends = np.empty((2, agents))
    if isinstance(x, SparseRows):
        for agent, rows in enumerate(design(x)):
            ends[:, agent] = _ends_of_sparse(rows, weights[agent].astype(np.float64))
        return ends[0], ends[1]

    def chunk(rows: slice) -> None:
        roots = np.sqrt(weights[rows].astype(np.float64))[:, :, None]
        matrix = design(x[rows]) * roots
        turned = matrix.swapaxes(1, 2)
        values = np.linalg.eigvalsh(turned @ matrix if width <= samples else matrix @ turned)
        ends[1, rows] = values[:, -1]
        # Fewer samples than coordinates leave some of them without curvature.
        least = values[:, 0] if width <= samples else 0.0
        ends[0, rows] = np.where(least > _ROUNDING * values[:, -1], least, 0.0)

    few = min(samples, width)
    for_chunks(chunk, agents, 8 * (samples * width + few**2), few**2 * (samples + width))
    return ends[0], ends[1]


def _ends_of_sparse(rows: sp.csr_array, weights: np.ndarray) -> tuple[float, float]:
    """Return the least and the largest eigenvalue of ``sum_m weights_m p_m p_m'`` for sparse rows p_m.

    A small product of either order is formed; of a larger one Lanczos finds the largest, and the least counts as 0.
    """
    matrix = sp.diags_array(np.sqrt(weights)) @ rows.astype(np.float64)
    samples, width = matrix.shape
    few = min(samples, width)
    if few <= _FORMED:
        product = matrix.T @ matrix if width <= samples else matrix @ matrix.T
        values = np.linalg.eigvalsh(product.toarray())
        return float(values[0]) if width <= samples and values[0] > _ROUNDING * values[-1] else 0.0, float(values[-1])
    if not matrix.nnz:
        return 0.0, 0.0
    side = matrix if samples <= width else matrix.T
    from scipy.sparse.linalg import LinearOperator, eigsh

    square = LinearOperator((few, few), matvec=lambda v: side @ (side.T @ v), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(few)
    return 0.0, float(eigsh(square, k=1, which="LA", v0=start, return_eigenvectors=False)[0])


def largest_curvature(problem: SampleSums, w: np.ndarray | None = None) -> np.ndarray:
    """Return the largest eigenvalue of ``sum_m weights_m J_m' H_m J_m`` of each agent at w, by the power method.

    If the model is linear and the loss has a ``curvature_bound``, the bound replaces H_m. All agents start from the same
    direction and take the same number of steps, so that no result depends on other agents. Without w, it is at the model's
    initial point of seed 0.
    """
    model, loss, shards = problem.model, problem.loss, problem.shards
    if w is None:
        point = np.asarray(model.init(np.random.default_rng(0)), problem.dtype)
        w = np.broadcast_to(point, (problem.agents, problem.parameters))
    start = np.random.default_rng(0).standard_normal(problem.parameters)
    start = (start / np.linalg.norm(start)).astype(problem.dtype)
    bound = loss.curvature_bound if model.jacobian_is_constant else None
    found = np.empty(problem.agents)

    def chunk(rows: slice) -> None:
        outputs, linearization = linearize(model, np.ascontiguousarray(w[rows]), shards.features[rows])
        whole = bound is None and not loss.separable
        curvature = loss.curvature(outputs, shards.targets[rows]) if bound is None else np.full_like(outputs, bound)
        curvature = curvature * problem.weights[rows].reshape(*outputs.shape[:2], *(1,) * (curvature.ndim - 2))
        v = np.tile(start, (len(outputs), 1))
        for _ in range(_STEPS):
            u = linearization.jvp(v)
            v = linearization.vjp((curvature @ u[..., None])[..., 0] if whole else curvature * u)
            length = np.sqrt(np.vecdot(v, v))[:, None]
            v = np.divide(v, length, out=np.zeros_like(v), where=length > 0)
        found[rows] = length[:, 0]

    for_chunks(chunk, problem.agents, problem.bytes_touched(shards.features.shape[1]))
    return found
