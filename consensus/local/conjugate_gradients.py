"""Conjugate gradients for a stack of systems."""

from collections.abc import Callable

import numpy as np

from consensus.local.operators import norms


def conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray],
    precondition: Callable[[np.ndarray], np.ndarray],
    right: np.ndarray,
    tolerance: np.ndarray,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Solve ``A_i x_i = b_i`` for a stack of definite systems, each agent frozen when its own residual is small.

    ``apply`` and ``precondition``, of (agents, m), multiply by A and by an approximate inverse of A. ``tolerance`` (agents,) is
    of each residual's norm relative to ``right``'s. Returns x (agents, m) and each agent's iterations, at most ``most``. See
    Hestenes, Stiefel, "Methods of conjugate gradients for solving linear systems", J. Res. NBS 49(6), 1952.
    """
    x, residual = np.zeros_like(right), right.copy()
    z = precondition(residual)
    direction, inner = z.copy(), np.vecdot(residual, z)
    goal = tolerance * norms(right)
    running = norms(residual) > goal
    iterations = np.zeros(len(right), int)
    for _ in range(most):
        if not running.any():
            break
        image = apply(direction)
        # A frozen agent takes steps of length zero, so that its numbers stay as they were.
        length = np.where(running, inner / np.where(running, np.vecdot(direction, image), 1), 0).astype(right.dtype)
        x += length[:, None] * direction
        residual -= length[:, None] * image
        iterations += running
        running &= norms(residual) > goal
        z = precondition(residual)
        new = np.vecdot(residual, z)
        direction = np.where(running[:, None], z + (new / np.where(inner != 0, inner, 1))[:, None] * direction, direction)
        inner = np.where(running, new, inner)
    return x, iterations
