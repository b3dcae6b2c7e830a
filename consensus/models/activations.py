"""Activation functions of a multilayer perceptron.

Each is a pair of functions: ``apply(a)`` may overwrite its argument and returns ``(h, kept)``, the activation and what the
derivative needs; ``derivative(kept)`` returns h'(a) as a new array.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit


class Activation(NamedTuple):
    """``apply(a) -> (h, kept)`` and ``derivative(kept) -> h'(a)``; ``gain`` scales the variance of a random start."""

    apply: Callable[[np.ndarray], tuple[np.ndarray, Any]]
    derivative: Callable[[Any], np.ndarray]
    gain: float = 1.0


def _tanh(a):
    h = np.tanh(a, out=a)
    return h, h


def _tanh_derivative(h):
    slope = np.square(h)
    return np.subtract(1, slope, out=slope)


def _relu(a):
    h = np.maximum(a, 0, out=a)
    return h, h


def _sigmoid(a):
    h = expit(a, out=a)
    return h, h


def _softplus(a):
    return np.logaddexp(0, a), a


def _quadratic(a):
    return np.square(a), a


ACTIVATIONS = {
    "tanh": Activation(_tanh, _tanh_derivative),
    "relu": Activation(_relu, lambda h: (h > 0).astype(h.dtype), gain=2.0),
    "sigmoid": Activation(_sigmoid, lambda h: h * (1 - h)),
    "softplus": Activation(_softplus, expit),
    "quadratic": Activation(_quadratic, lambda a: 2 * a),
}
