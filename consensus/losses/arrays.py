"""Outputs and targets as arrays that fit each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks

if TYPE_CHECKING:
    import cvxpy


def columns_of(targets: ArrayLike) -> int:
    """Return the number of columns of targets (samples, columns)."""
    shape: tuple[int, ...] = _checks.array("targets", targets).shape
    if not shape:
        raise ValueError(f"targets must have shape (samples, columns); got {shape}")
    return shape[-1]


def scores(outputs: ArrayLike) -> np.ndarray:
    """Return outputs as an array of floats (..., samples, outputs); raise an error if they are no such array."""
    found = _checks.floats("outputs", outputs)
    if found.ndim < 2 or not found.shape[-1]:
        raise ValueError(f"outputs must have shape (..., samples, outputs); got {found.shape}")
    return found


def shaped(targets: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """Return targets in a shape, to which one axis of length one may be missing, and nothing is broadcast."""
    found = _checks.array("targets", targets)
    if found.ndim == len(shape) - 1:
        found = found[..., None]
    if found.shape != shape:
        raise ValueError(f"targets must have shape {shape} for these outputs; got {found.shape}")
    return found


def aligned(outputs: ArrayLike, targets: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return outputs, and targets of the same shape and dtype."""
    if (
        type(outputs) is np.ndarray
        and type(targets) is np.ndarray
        and outputs.dtype in (float, np.float32)
        and (outputs.dtype, outputs.shape) == (targets.dtype, targets.shape)
        and outputs.ndim > 1
        and outputs.shape[-1]
    ):
        return outputs, targets  # as in every round
    outputs = scores(outputs)
    return outputs, shaped(targets, outputs.shape).astype(outputs.dtype, copy=False)


def summed(losses: np.ndarray) -> np.ndarray:
    """Return the sum over outputs, the last axis."""
    return cast(np.ndarray, losses.sum(axis=-1))


def weighted(losses: cvxpy.Expression, weights: np.ndarray) -> cvxpy.Expression:
    """Return the sum of a CVXPY expression (samples, outputs), weighted by samples."""
    import cvxpy as cp  # takes a second, which only its users spend

    return cp.sum(cp.multiply(np.broadcast_to(weights[:, None], losses.shape), losses))
