"""An agent's convex problem in the direction v = w - w_i, for a chunk of agents."""

from typing import NamedTuple, Self, cast

import numpy as np

from consensus.local.operators import Operator, norms
from consensus.losses.base import Loss
from consensus.regularizers.base import Regularizer


class Subproblem(NamedTuple):
    """``min_v  B(J v) + linear . v + tau/2 |v|^2 + r(w + v)`` for every agent of a chunk.

    B is what the losses add beyond their linear part, ``B(a) = sum_m c_m [l(f_m + a_m, d_m) - l'(f_m, d_m) . a_m]``: its
    gradient is zero at a = 0, where ``linear`` (agents, P) is the gradient of everything smooth. J is ``operator``, see
    :mod:`consensus.local.operators`; f, d and l'(f) are ``outputs``, ``targets`` and ``slopes`` (agents, samples, outputs); c,
    ``weights`` (agents, samples), include the surrogate's scale. ``known_bound`` is the :attr:`bound`, once :meth:`bounded` has
    found it.
    """

    operator: Operator
    loss: Loss
    outputs: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    slopes: np.ndarray
    w: np.ndarray
    linear: np.ndarray
    tau: float
    regularizer: Regularizer
    known_bound: np.ndarray | None = None

    @property
    def bound(self) -> np.ndarray:
        """At least the largest curvature of a linear system, shape (agents,)."""
        if self.known_bound is None:
            raise ValueError("the bound is that of bounded(): call it first")
        return self.known_bound

    @property
    def strong_convexity(self) -> float:
        """Strong convexity of the part that a linear system sees: tau, and a quadratic regularizer's own."""
        return self.tau + (self.regularizer.strong_convexity if self.regularizer.quadratic else 0.0)

    def bounded(self) -> Self:
        """Return the subproblem with its :attr:`bound`, ``k + b trace(J' diag(c) J)``.

        b is the loss's ``curvature_bound`` if that is above one, else one, which is at least the curvature of most losses.

        Without the operator's ``diagonal`` it is found by a few steps of power iteration; by fewer where r is quadratic, for
        then its order of magnitude is all that is asked for.
        """
        if self.operator.diagonal:
            shape = (*self.weights.shape, self.outputs.shape[2])
            trace: np.ndarray = self.operator.diagonal(np.broadcast_to(self.weights[:, :, None], shape)).sum(axis=1)
        else:
            steps = 2 if self.regularizer.quadratic else 8
            trace = _power(self.operator, self.weights[:, :, None], self.w.shape, self.w.dtype, steps)
        if (bound := self.loss.curvature_bound or 1.0) > 1:
            trace = bound * trace
        return self._replace(known_bound=self.strong_convexity + trace)

    def bregman(self, a: np.ndarray) -> np.ndarray:
        """Return B(a), shape (agents,), for a (agents, samples, outputs)."""
        losses = self.loss.value(self.outputs + a, self.targets) - (self.slopes * a).sum(axis=2)
        return cast(np.ndarray, np.vecdot(losses, self.weights))

    def root(self, a: np.ndarray) -> np.ndarray:
        """Return L with L L' = c l''(f + a), a sample at a time."""
        return weighted_root(self.loss, self.outputs + a, self.targets, self.weights)

    def bend(self, a: np.ndarray) -> np.ndarray:
        """Return ``c (l'(f + a) - l'(f))`` (agents, samples, outputs)."""
        return cast(np.ndarray, (self.loss.gradient(self.outputs + a, self.targets) - self.slopes) * self.weights[:, :, None])

    def value(self, x: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Return the objective (agents,) at x = w + v, with a = J v."""
        return cast(np.ndarray, self.terms(x, a).sum(axis=0))

    def terms(self, x: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Return the four terms (4, agents) of the objective, whose sizes say how it is rounded."""
        v = x - self.w
        linear, proximal = np.vecdot(self.linear, v), self.tau / 2 * np.vecdot(v, v)
        return np.array([self.bregman(a), linear, proximal, self.regularizer.value(x)], like=x)

    def gradient(self, x: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Return the gradient (agents, P) of all but an r that is not quadratic, at x = w + v with a = J v."""
        gradient: np.ndarray = self.operator.vjp(self.bend(a)) + self.linear + self.tau * (x - self.w)
        return gradient + self.regularizer.gradient(x) if self.regularizer.quadratic else gradient

    def residual(self, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return how far x is from optimal (measures, agents), ``|x - prox_{r/s}(x - gradient / s)|``: zero at the minimiser.

        One measure has s = :attr:`strong_convexity`: it sees the softest directions. If r is not quadratic another has s =
        :attr:`bound`: where rounding over the strong convexity is more than a bounded set is wide, the first says nothing.
        With a quadratic r it is ``|gradient| / s``. Unchanged if the whole problem is rescaled.
        """
        k = self.strong_convexity
        if self.regularizer.quadratic:
            return cast(np.ndarray, norms(gradient)[None] / k)
        scales = [np.full_like(self.bound, k)[:, None], self.bound[:, None]]
        return np.array([norms(x - self.regularizer.prox(x - gradient / s, 1 / s)) for s in scales], like=x)

    def rounding(self, x: np.ndarray) -> np.ndarray:
        """Return below which a :meth:`residual` at x is nothing but rounding, of the points and of the gradient over s."""
        eps, linear = 10 * np.finfo(x.dtype).eps, norms(self.linear)
        size = norms(self.w) + norms(x - self.w)
        softest = size + linear / self.strong_convexity
        sizes = softest[None] if self.regularizer.quadratic else np.array([softest, size + linear / self.bound], like=x)
        return cast(np.ndarray, eps * sizes)

    def solved(
        self, x: np.ndarray, gradient: np.ndarray, tolerance: float | np.ndarray, start: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return whether (agents,) every residual is at most that part of its ``start``, or rounding; and the residuals."""
        residual = self.residual(x, gradient)
        enough: np.ndarray = residual <= np.maximum(tolerance * start, self.rounding(x))
        return cast(np.ndarray, enough.all(axis=0)), residual

    def gap(self, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return by how much (agents,) the objective at x is above its least value, at most.

        ``max_y -[gradient . (y - x) + k/2 |y - x|^2 + r(y) - r(x)]`` with k = :attr:`strong_convexity`.
        """
        k, r = self.strong_convexity, self.regularizer
        if r.quadratic:
            return cast(np.ndarray, np.vecdot(gradient, gradient) / (2 * k))
        y = r.prox(x - gradient / k, 1 / k)
        return cast(np.ndarray, -(np.vecdot(gradient, y - x) + k / 2 * np.vecdot(y - x, y - x) + r.value(y) - r.value(x)))


def _power(operator: Operator, weights: np.ndarray, shape: tuple[int, ...], dtype: np.dtype, steps: int) -> np.ndarray:
    """Return about the largest eigenvalue of J' diag(weights) J, shape (agents,), and not much less."""
    v = np.asarray(np.random.default_rng(0).standard_normal(shape).astype(dtype), like=weights)
    for _ in range(steps):
        v /= np.maximum(np.linalg.norm(v, axis=1, keepdims=True), np.finfo(dtype).tiny)
        v = operator.vjp(weights * operator.jvp(v))
    return cast(np.ndarray, 2 * np.linalg.norm(v, axis=1))


def weighted_root(loss: Loss, outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return L with L L' = c l''(outputs), a sample at a time."""
    root, scale = loss.curvature_root(outputs, targets), np.sqrt(weights)
    return cast(np.ndarray, root * scale.reshape(*scale.shape, *(1,) * (root.ndim - 2)))
