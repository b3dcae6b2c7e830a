"""Activation functions of a multilayer perceptron.

``apply(a, bias)`` may overwrite a and returns ``(h, kept)``, the activation of a + bias and the argument of its derivative;
``derivative(kept)`` returns h' as a new array. ``backward(u, kept, out)``, if there is one, returns u h' in one pass. Functions
are pickled by their names.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from consensus import kernels


class Activation(NamedTuple):
    """``apply(a, bias) -> (h, kept)`` and ``derivative(kept) -> h'``; ``gain`` scales the variance of a random start."""

    apply: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    derivative: Callable[[np.ndarray], np.ndarray]
    gain: float = 1.0
    backward: Callable[..., np.ndarray] | None = None


def _tanh(a: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    h = kernels.tanh_sum(a, bias, out=a)
    return h, h


def _relu(a: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a += bias
    h = np.maximum(a, 0, out=a)
    return h, h


def _relu_slope(h: np.ndarray) -> np.ndarray:
    return (h > 0).astype(h.dtype)


def _sigmoid(a: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    h = kernels.sigmoid_sum(a, bias, out=a)
    return h, h


def _softplus(a: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a += bias
    return kernels.softplus(a), a


def _quadratic(a: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a += bias
    return np.square(a), a


def _quadratic_slope(a: np.ndarray) -> np.ndarray:
    return 2 * a


ACTIVATIONS = {
    "tanh": Activation(_tanh, kernels.tanh_slope, backward=kernels.tanh_backward),
    "relu": Activation(_relu, _relu_slope, gain=2.0),
    "sigmoid": Activation(_sigmoid, kernels.sigmoid_slope, backward=kernels.sigmoid_backward),
    "softplus": Activation(_softplus, kernels.sigmoid),
    "quadratic": Activation(_quadratic, _quadratic_slope),
}
