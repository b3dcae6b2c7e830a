"""Activation functions of a multilayer perceptron.

Each is a pair of functions: ``apply(a, bias)`` may overwrite a and returns ``(h, kept)``, the activation of a + bias and what
the derivative needs; ``derivative(kept)`` returns h' as a new array. ``backward(u, kept, out)``, if there is one, returns u h'
in one pass. All have names, by which they are pickled.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from consensus import kernels


class Activation(NamedTuple):
    """``apply(a, bias) -> (h, kept)`` and ``derivative(kept) -> h'``; ``gain`` scales the variance of a random start."""

    apply: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, Any]]
    derivative: Callable[[Any], np.ndarray]
    gain: float = 1.0
    backward: Callable[..., np.ndarray] | None = None


def _tanh(a, bias):
    h = kernels.tanh_sum(a, bias, out=a)
    return h, h


def _relu(a, bias):
    a += bias
    h = np.maximum(a, 0, out=a)
    return h, h


def _relu_slope(h):
    return (h > 0).astype(h.dtype)


def _sigmoid(a, bias):
    h = kernels.sigmoid_sum(a, bias, out=a)
    return h, h


def _softplus(a, bias):
    a += bias
    return kernels.softplus(a), a


def _quadratic(a, bias):
    a += bias
    return np.square(a), a


def _quadratic_slope(a):
    return 2 * a


ACTIVATIONS = {
    "tanh": Activation(_tanh, kernels.tanh_slope, backward=kernels.tanh_backward),
    "relu": Activation(_relu, _relu_slope, gain=2.0),
    "sigmoid": Activation(_sigmoid, kernels.sigmoid_slope, backward=kernels.sigmoid_backward),
    "softplus": Activation(_softplus, kernels.sigmoid),
    "quadratic": Activation(_quadratic, _quadratic_slope),
}
