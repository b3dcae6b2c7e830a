"""What one compiled kernel computes: gradients and values of linear models with one output, in the package's losses."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from consensus import kernels
from consensus.kernels.kernel import Kernel
from consensus.losses import Huber, LogisticLoss, SquaredLoss
from consensus.losses.base import Loss
from consensus.models.base import Model
from consensus.models.linear import Linear


class AtOnce(NamedTuple):
    """Functions of w (agents, P), each a call of a kernel with the samples of all agents.

    They return the agents' gradients, those of the average form (None where r is not L2), and values.
    """

    gradient: Callable[[np.ndarray], np.ndarray]
    average: Callable[[np.ndarray], np.ndarray] | None
    value: Callable[[np.ndarray], np.ndarray]


class Fused(NamedTuple):
    """The kernels of gradients and values, and the largest slope of the loss where that is a setting."""

    gradients: Kernel
    values: Kernel
    most: float = math.inf

    def gradient(self, x, d, c, w, out, scale, ridge):
        """Put the gradients of ``scale sum_m c_m l(f(w, x_m), d_m) + ridge/2 |w|^2`` into ``out``; no scale is one.

        Shapes: w and the result (agents, P), x (agents, samples, features), d (agents, samples, 1), c (agents, samples).
        """
        self.gradients.of(out.dtype)(np.ascontiguousarray(w), *self.samples(x, d, c, scale, ridge), out)

    def value(self, x, d, c, w, out):
        """Put ``sum_m c_m l(f(w, x_m), d_m)`` of every agent into ``out`` (agents,)."""
        self.values.of(out.dtype)(np.ascontiguousarray(w), *self.samples(x, d, c), out)

    def at_once(self, x, d, c, scale, ridge):
        """:class:`AtOnce` of these samples, where the average form has the ``scale`` and the ``ridge``, or none."""
        average = None if ridge is None else _of_w(self.gradients, *self.samples(x, d, c, scale, ridge))
        samples = self.samples(x, d, c)
        return AtOnce(_of_w(self.gradients, *samples), average, _of_w(self.values, *samples))

    def samples(self, x, d, c, scale=None, ridge=0.0):
        """What both kernels take after w."""
        whole = np.ascontiguousarray
        return whole(x), whole(d[:, :, 0]), whole(c), _settings(1.0 if scale is None else scale, ridge, self.most, x.dtype.char)


def _of_w(kernel, x, d, c, settings):
    kernel = kernel.of(x.dtype)
    return lambda w: kernel(np.ascontiguousarray(w), x, d, c, settings)


@functools.lru_cache(maxsize=64)
def _settings(scale, ridge, most, dtype):
    return np.array((scale, ridge, most), dtype)


def fused(model: Model, loss: Loss) -> Fused | None:
    """The kernel of this model and loss; None if there is none, or nothing is compiled."""
    if type(model) is not Linear or model.outputs > 1 or kernels.level() is None:
        return None
    if type(loss) is LogisticLoss:
        return Fused(kernels.linear_logistic, kernels.linear_logistic_value)
    if type(loss) is SquaredLoss:
        return Fused(kernels.linear_huber, kernels.linear_huber_value)
    return Fused(kernels.linear_huber, kernels.linear_huber_value, loss.delta) if type(loss) is Huber else None
