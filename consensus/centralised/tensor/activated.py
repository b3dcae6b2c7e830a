"""Activations of a rank's block, and their slopes."""

import numpy as np

from consensus.models.activations import Activation


def activated(activation: Activation, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the activation of a block (rows, columns), which it may overwrite, and what :func:`sloped` needs."""
    h, kept = activation.apply(a[None], np.zeros((1, 1, a.shape[1]), a.dtype))
    return h[0], kept[0]


def sloped(activation: Activation, d: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return ``d`` times the slope of the activation."""
    if activation.backward is not None:
        done: np.ndarray = activation.backward(d[None], kept[None], out=d[None])[0]
        return done
    slope: np.ndarray = activation.derivative(kept[None])[0]
    slope *= d
    return slope
