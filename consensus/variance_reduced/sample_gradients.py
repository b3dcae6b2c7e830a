"""The gradients of single samples, in as few numbers as a model allows: for methods that store them."""

from typing import cast

import numpy as np

from consensus._arrays.rows import taken
from consensus._arrays.sparse import SparseRows
from consensus.models.linear import SparseLinear
from consensus.models.linearization import linearize
from consensus.problems.batch import Batch
from consensus.problems.problem import Problem

_MOST = 1 << 28  # bytes of all agents' tables: one is copied in a step


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
    if own := getattr(problem, "changes", None):  # on a device
        return cast("tuple[np.ndarray, np.ndarray]", own(w, places, old, weights, _linear(problem)))
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


def check_table(problem: Problem, who: str, others: str) -> None:
    """Raise ``ValueError`` if a table of all samples' gradients is too large; ``others`` are solvers that have none."""
    samples, each = problem.shards.weights.shape[1], numbers(problem)
    size = problem.network_size * samples * each * problem.dtype.itemsize
    if size > _MOST:
        raise ValueError(
            f"{who} remembers {each:,} numbers of every sample of {problem.model}: with up to {samples:,} samples an "
            f"agent {size / 2**20:,.0f} MB in all, and at most {_MOST >> 20} are allowed; use {others}"
        )


def whole_table(problem: Problem, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all samples' gradients at w in compact form (agents, most, numbers), and the agents' weighted sums (agents, P)."""
    everything = np.broadcast_to(np.arange(problem.weights.shape[1]), problem.weights.shape)
    nothing = np.zeros((*everything.shape, numbers(problem)), problem.dtype)
    table, sums = changes(problem, w, everything, nothing, problem.weights[:, None])
    problem.work.gradients += 1
    problem.work.samples += int(np.count_nonzero(problem.weights))
    return table, sums[:, 0]


def renewed(
    problem: Problem, w: np.ndarray, batch: tuple[np.ndarray, np.ndarray] | None, table: np.ndarray, total: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return SAGA's estimate of the sum of the gradients at w (agents, P), and a table and total with those of the batch."""
    places, scale = cast(Batch, batch)
    agents = np.arange(problem.agents)[:, None]
    c = np.take_along_axis(problem.weights, places, axis=1)
    weights = np.stack([c * scale, c * _first(places, scale > 0)], axis=1)
    new, sums = changes(problem, w, places, table[agents, places], weights)
    problem.work.gradients += 1
    problem.work.samples += int(np.count_nonzero(scale))
    table = table.copy()
    agent, column = np.nonzero(scale)
    table[agent, places[agent, column]] = new[agent, column]
    return total + sums[:, 0], table, total + sums[:, 1]


def _first(places: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Return where a sample comes for the first time in its agent's batch, which may hold it several times."""
    key = np.where(real, places, -1)
    order = np.argsort(key, axis=1, kind="stable")
    ascending = np.take_along_axis(key, order, axis=1)
    fresh = np.diff(ascending, axis=1, prepend=-1) > 0
    first = np.empty_like(fresh)
    np.put_along_axis(first, order, fresh, axis=1)
    return first


def _linear(problem: Problem) -> bool:
    return bool(getattr(problem.model, "jacobian_is_constant", False))
