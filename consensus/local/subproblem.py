"""An agent's convex problem in the direction v = w - w_i, for a chunk of agents."""

from typing import NamedTuple

import numpy as np

from consensus.losses.base import Loss
from consensus.regularizers.base import Regularizer


class Subproblem(NamedTuple):
    """``min_v  B(J v) + linear . v + tau/2 |v|^2 + r(w + v)`` for every agent of a chunk.

    B is what the losses add beyond their linear part, ``B(a) = sum_m c_m [l(f_m + a_m, d_m) - l'(f_m, d_m) . a_m]``: its
    gradient is zero at a = 0, where ``linear`` is the gradient of everything smooth.

    Fields
    ------
    operator : object
        J: see :mod:`consensus.local.operators`.
    loss : Loss
    outputs, targets : ndarray (agents, samples, outputs)
        f and d.
    weights : ndarray (agents, samples)
        c, the surrogate's scale included.
    slopes : ndarray (agents, samples, outputs)
        l'(f).
    w, linear : ndarray (agents, P)
    tau : float
    regularizer : Regularizer
    """

    operator: object
    loss: Loss
    outputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    slopes: np.ndarray
    w: np.ndarray
    linear: np.ndarray
    tau: float
    regularizer: Regularizer

    @property
    def strong_convexity(self):
        """Of the part that a linear system sees: tau, and a quadratic regularizer's own."""
        return self.tau + (self.regularizer.strong_convexity if self.regularizer.quadratic else 0.0)

    @property
    def rounding(self):
        """Below which a :meth:`residual` is nothing but rounding (agents,): that of w and that of the gradient over k."""
        scale = 1 + np.linalg.norm(self.w, axis=1) + np.linalg.norm(self.linear, axis=1) / self.strong_convexity
        return 10 * np.finfo(self.w.dtype).eps * scale

    def bregman(self, a):
        """B(a), shape (agents,), for a (agents, samples, outputs)."""
        losses = self.loss.value(self.outputs + a, self.targets) - (self.slopes * a).sum(axis=2)
        return np.vecdot(losses, self.weights)

    def root(self, a):
        """L with L L' = c l''(f + a), a sample at a time."""
        root = self.loss.curvature_root(self.outputs + a, self.targets)
        scale = np.sqrt(self.weights)
        return root * scale.reshape(*scale.shape, *(1,) * (root.ndim - 2))

    def value(self, x, a):
        """The objective at the point x = w + v, with a = J v; shape (agents,)."""
        return self.terms(x, a).sum(axis=0)

    def terms(self, x, a):
        """Its four terms (4, agents), whose sizes say how it is rounded."""
        v = x - self.w
        linear, proximal = np.vecdot(self.linear, v), self.tau / 2 * np.vecdot(v, v)
        return np.array([self.bregman(a), linear, proximal, self.regularizer.value(x)])

    def gradient(self, x, a):
        """Of all but an r that is not quadratic, at x = w + v with a = J v; shape (agents, P)."""
        bend = (self.loss.gradient(self.outputs + a, self.targets) - self.slopes) * self.weights[:, :, None]
        gradient = self.operator.vjp(bend) + self.linear + self.tau * (x - self.w)
        return gradient + self.regularizer.gradient(x) if self.regularizer.quadratic else gradient

    def residual(self, x, gradient):
        """How far x is from optimal (agents,): ``|x - prox_{r/k}(x - gradient / k)|``, k = :attr:`strong_convexity`.

        With a quadratic r it is ``|gradient| / k``. Zero exactly at the minimiser; unchanged if the whole problem is rescaled.
        """
        k = self.strong_convexity
        if self.regularizer.quadratic:
            return np.linalg.norm(gradient, axis=1) / k
        return np.linalg.norm(x - self.regularizer.prox(x - gradient / k, 1 / k), axis=1)
