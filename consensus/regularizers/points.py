"""Arguments and results of the methods of regularizers."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks


def points(name: str, value: ArrayLike) -> np.ndarray:
    """Return ``value`` as an array of floats (P,) or (agents, P); raise ``TypeError`` or ``ValueError`` otherwise."""
    found = _checks.floats(name, value)
    if not 0 < found.ndim < 3:
        raise ValueError(f"{name} must have shape (P,) or (agents, P); got {found.shape}")
    return found


def weights_of_each(name: str, value: ArrayLike) -> np.ndarray:
    """Return a read-only array of the coordinates' weights; raise ``ValueError`` unless they are finite, >= 0 and (P,)."""
    weights = _checks.floats(name, value).astype(float)
    if weights.ndim != 1 or not weights.size or not (np.isfinite(weights).all() and weights.min() >= 0):
        raise ValueError(f"{name} must be finite weights >= 0 (P,); got {_checks.shown(value)}")
    weights.flags.writeable = False
    return weights


def weighted_points(name: str, value: ArrayLike, weights: np.ndarray, of: object) -> np.ndarray:
    """Return ``value`` as :func:`points` does; raise ``ValueError`` unless it has as many coordinates as ``of`` has weights."""
    found = points(name, value)
    if found.shape[-1] != len(weights):
        raise ValueError(f"{name} must have the {len(weights)} coordinates of {of}; got shape {found.shape}")
    return found


def digested(weights: np.ndarray) -> str:
    """Return the text that stands for weights, of which there may be many."""
    return f"<{len(weights)} weights, {zlib.crc32(weights.tobytes()):08x}>"


def to_prox(v: ArrayLike, step: float | np.ndarray) -> tuple[np.ndarray, float | np.ndarray]:
    """Return ``v`` as points and ``step`` as a number > 0 or an array (agents, 1); raise as :func:`points` otherwise.

    The entries of an array of steps are not checked: local solvers call this in their inner loops.
    """
    if type(step) is float and 0 < step < math.inf:  # the usual case, without further checks
        return points("v", v), step
    v = points("v", v)
    if type(step) is np.ndarray:
        if step.ndim == v.ndim == 2 and step.shape == (len(v), 1) and step.dtype.kind == "f":
            return v, step
    elif isinstance(step, float | np.floating) and 0 < step < math.inf:
        return v, step
    if not hasattr(step, "__len__"):
        return v, _checks.number("step", step, above=0)
    step = _checks.floats("step", step)
    if not ((step.shape == (len(v), 1) and v.ndim == 2) or (step.size == 1 and step.ndim <= v.ndim)):
        wanted = f"(agents, 1) = {(len(v), 1)}" if v.ndim == 2 else "(1,)"
        raise ValueError(f"step must be a number or an array {wanted}; got shape {step.shape}")
    return v, step


def total(terms: np.ndarray) -> np.ndarray | float:
    """Return the sum of each row, shape (agents,), or a number for one point."""
    sums: np.ndarray | float = terms.sum(axis=-1)
    return sums


def soft_threshold(v: np.ndarray, width: float | np.ndarray) -> np.ndarray:
    """Return ``sign(v) max(|v| - width, 0)``, with exact zeros inside the width."""
    width = like(width, v)
    return v - np.clip(v, -width, width)  # type: ignore[no-any-return]


def like(number: ArrayLike, v: np.ndarray) -> np.ndarray:
    """Return ``number``, a scalar or an array, in the dtype of the points ``v``, so that float32 points stay float32."""
    if hasattr(number, "on_device"):
        return cast(np.ndarray, number).astype(v.dtype)
    return np.asarray(number, v.dtype if v.dtype.kind == "f" else None)


def spread(x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return ``x``, an entry or a row per agent, with an axis for the directions of ``d`` if there are many per agent."""
    return x if x.ndim == d.ndim else x[..., None, :]


def check_slices(slices: Sequence[slice]) -> None:
    """Raise ``ValueError`` unless ``slices`` cover 0..P in order, each from where the one before it ends, none empty."""
    end, good = 0, len(slices) > 0
    for block in slices:
        good = good and isinstance(block, slice) and block.step in (None, 1) and (block.start or 0) == end
        good = good and block.stop is not None and block.stop > end
        end = block.stop if good else end
    if not good:
        raise ValueError(f"slices must cover 0..P in order, none empty, as [slice(0, 4), slice(4, 10)] does; got {slices!r}")
