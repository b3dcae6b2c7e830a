"""The gradients of single samples, in as few numbers as a model allows: for methods that store them."""

import numpy as np

from consensus._arrays.rows import taken
from consensus._arrays.sparse import SparseRows
from consensus.models.linear import SparseLinear
from consensus.models.linearization import linearize
from consensus.problems.problem import Problem


def numbers(problem: Problem) -> int:
    """Return how many numbers represent the gradient of a sample's loss: one per output if the model is linear in w, else P.

    The gradient of a linear model is a fixed Jacobian times the slopes of the loss, and only the slopes change.
    """
    return problem.model.outputs if _linear(problem) else problem.parameters


def changes(
    problem: Problem, w: np.ndarray, places: np.ndarray, old: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return a compact form of each sample's gradient at w, and ``sum_m weights[:, k, m] (gradient_m - old gradient_m)``.

    Samples are at ``places`` (agents, samples) of their agents' shards. The compact form has the length :func:`numbers`, and
    ``old`` (agents, samples, numbers) is that of the earlier gradients. There is a sum for each k: ``weights`` are (agents,
    sums, samples), the sums (agents, sums, P).
    """
    if _linear(problem):
        x, targets = taken(problem.shards.features, places), taken(problem.shards.targets, places)
        outputs, linearization = linearize(problem.model, w, x)
        new = problem.loss.gradient(outputs, targets)
        return new, linearization.vjp(weights[..., None] * (new - old)[:, None])
    new = sample_gradients(problem, w, places)
    return new, weights @ (new - old)


def sample_gradients(problem: Problem, w: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the gradients of single samples' losses (agents, samples, P), at ``places`` (agents, samples) of the shards."""
    count = places.shape[1]
    x, targets = taken(problem.shards.features, places), taken(problem.shards.targets, places)
    # Every sample counts as an agent of its own, whose gradient is one product with its Jacobian.
    alone = x.apart() if isinstance(x, SparseRows) else x.reshape(-1, 1, *x.shape[2:])
    outputs, linearization = linearize(problem.model, np.repeat(w, count, axis=0), alone)
    slopes = problem.loss.gradient(outputs, targets.reshape(-1, 1, targets.shape[2]))
    return linearization.vjp(slopes).reshape(len(w), count, -1)


def clipped_sums(
    problem: Problem, model: SparseLinear, w: np.ndarray, places: np.ndarray, weights: np.ndarray, clip: np.ndarray
) -> np.ndarray:
    """Return ``sum_m weights_m gradient_m``, each gradient cut to the norm ``clip`` (agents,), of a model of sparse features.

    The gradient of a sample of a linear model is the product of its features, with a one for the bias, and the slopes of the
    loss; its norm is that of their norms, so no gradient is formed.
    """
    x, targets = taken(problem.shards.features, places), taken(problem.shards.targets, places)
    outputs, linearization = linearize(model, w, x)
    slopes = problem.loss.gradient(outputs, targets)
    slopes = np.where(np.isfinite(slopes).all(axis=2, keepdims=True), slopes, 0)
    norms = model.design(x).norms() * np.linalg.norm(slopes, axis=2)
    kept = weights * np.minimum(1, clip[:, None] / np.maximum(norms, np.finfo(norms.dtype).tiny))
    return linearization.vjp((kept[..., None] * slopes).astype(slopes.dtype, copy=False))


def _linear(problem: Problem) -> bool:
    return bool(getattr(problem.model, "jacobian_is_constant", False))
