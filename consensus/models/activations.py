"""Activation functions of a multilayer perceptron.

``apply(a, bias)`` may overwrite a and returns ``(h, kept)``, the activation of a + bias and the argument of its derivatives;
``derivative(kept)`` returns h', and ``bend(kept)`` h'', as new arrays. ``backward(u, kept, out)``, if there is one, is u h'
in one pass. Functions are pickled by their names.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from consensus import kernels


class Activation(NamedTuple):
    """``apply(a, bias) -> (h, kept)``, ``derivative(kept) -> h'``, ``bend(kept) -> h''``; ``gain`` scales starts' variance."""

    apply: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
    derivative: Callable[[np.ndarray], np.ndarray]
    bend: Callable[[np.ndarray], np.ndarray]
    gain: float = 1.0
    backward: Callable[..., np.ndarray] | None = None


def _tanh(a: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    h = kernels.tanh_sum(a, bias, out=a)
    return h, h


def _tanh_bend(h: np.ndarray) -> np.ndarray:
    return np.asarray(-2 * h * kernels.tanh_slope(h))


def _relu(a: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a += bias
    h = np.maximum(a, 0, out=a)
    return h, h


def _relu_slope(h: np.ndarray) -> np.ndarray:
    return (h > 0).astype(h.dtype)


def _sigmoid_bend(h: np.ndarray) -> np.ndarray:
    return np.asarray((1 - 2 * h) * kernels.sigmoid_slope(h))


def _sigmoid(a: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    h = kernels.sigmoid_sum(a, bias, out=a)
    return h, h


def _softplus(a: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a += bias
    return kernels.softplus(a), a


def _softplus_bend(a: np.ndarray) -> np.ndarray:
    return np.asarray(kernels.sigmoid_slope(kernels.sigmoid(a)))


def _quadratic(a: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a += bias
    return np.square(a), a


def _quadratic_slope(a: np.ndarray) -> np.ndarray:
    return 2 * a


def _two(a: np.ndarray) -> np.ndarray:
    return np.full_like(a, 2)


ACTIVATIONS = {
    "tanh": Activation(_tanh, kernels.tanh_slope, _tanh_bend, backward=kernels.tanh_backward),
    "relu": Activation(_relu, _relu_slope, np.zeros_like, gain=2.0),
    "sigmoid": Activation(_sigmoid, kernels.sigmoid_slope, _sigmoid_bend, backward=kernels.sigmoid_backward),
    "softplus": Activation(_softplus, kernels.sigmoid, _softplus_bend),
    "quadratic": Activation(_quadratic, _quadratic_slope, _two),
}
