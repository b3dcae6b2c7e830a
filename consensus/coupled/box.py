"""Quadratic programs in boxes, one for each agent of a stack."""

import numpy as np

_SUFFICIENT = 1e-4  # the part of the promised decrease that a step must bring
_HALVINGS = 40  # of a step
_NEAR = 1e-3  # distance from a bound, relative to the residual at most, within which a coordinate counts as on it


def minimise_in_box(
    H: np.ndarray, h: np.ndarray, lower: np.ndarray, upper: np.ndarray, start: np.ndarray, most: int = 100
) -> np.ndarray:
    """Return ``argmin_x 1/2 x_i' H_i x_i + h_i . x_i`` over ``lower <= x <= upper``, for every agent i.

    Projected Newton's method: coordinates at a bound that the gradient pushes against it are fixed, a linear system gives the
    direction d of the others, and ``x <- P(x + t d)`` with the first of t = 1, 1/2, 1/4, ... that brings enough decrease. Once
    the right coordinates are fixed one step is exact up to rounding.

    Parameters
    ----------
    H : ndarray (agents, n, n)
        Symmetric positive definite matrices.
    h, lower, upper, start : ndarray (agents, n)
        Linear terms, bounds, which may be infinite, and where to begin.
    most : int
        Steps at most.

    Returns
    -------
    ndarray (agents, n)
        The minimisers.

    References
    ----------
    Bertsekas, "Projected Newton methods for optimization problems with simple constraints", SIAM J. Control Optim. 20(2), 1982.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.coupled.box import minimise_in_box
    >>> H, h = np.array([[[2.0, 1.0], [1.0, 2.0]]]), np.array([[-4.0, -5.0]])
    >>> minimise_in_box(H, h, np.zeros((1, 2)), np.full((1, 2), 1.5), np.zeros((1, 2)))
    array([[1.25, 1.5 ]])
    """
    x, rounding = np.clip(start, lower, upper), 8 * np.finfo(h.dtype).eps
    scale = np.einsum("aii->ai", H)
    for _ in range(most):
        gradient = _times(H, x) + h
        wanted = np.clip(x - gradient / scale, lower, upper)
        residual = abs(x - wanted).max(axis=1, initial=0.0)
        # What gradients lose to rounding, as a step.
        noise = rounding * ((_times(abs(H), abs(x)) + abs(h)) / scale).max(axis=1, initial=0.0)
        running = residual > noise
        if not running.any():
            break
        near = np.minimum(_NEAR, residual)[:, None]
        fixed = ((x - lower <= near) & (gradient > 0)) | ((upper - x <= near) & (gradient < 0))
        free = np.where(fixed[:, :, None] | fixed[:, None, :], 0.0, H) + _diagonal(np.where(fixed, scale, 0.0))
        direction = -np.linalg.solve(free, gradient[:, :, None])[:, :, 0]
        new = _searched(H, x, gradient, direction, lower, upper, running)
        if (new == x).all():
            break
        x = new
    return np.asarray(x)


def _searched(
    H: np.ndarray,
    x: np.ndarray,
    gradient: np.ndarray,
    direction: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    running: np.ndarray,
) -> np.ndarray:
    """Return x after the first step along the projected direction that brings enough decrease; x itself if none does."""
    found, length = x, 1.0
    for _ in range(_HALVINGS):
        new = np.clip(x + length * direction, lower, upper)
        step = new - x
        slope = (gradient * step).sum(axis=1)
        enough = running & (slope + (step * _times(H, step)).sum(axis=1) / 2 <= _SUFFICIENT * slope)
        found = np.where(enough[:, None], new, found)
        running = running & ~enough
        if not running.any():
            break
        length /= 2
    return found


def _times(H: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.asarray(np.matmul(H, x[:, :, None])[:, :, 0])


def _diagonal(values: np.ndarray) -> np.ndarray:
    return np.asarray(values[:, :, None] * np.eye(values.shape[1]))
