"""What a model is, and its first-order expansion."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from consensus import _checks


class Model(Protocol):
    """A function ``f(w, x)`` of parameters and features, for a block of agents at once.

    A model of one's own needs ``parameters``, ``outputs``, ``init``, ``predict``, ``vjp`` and ``jvp``; ``jacobian``,
    ``gram`` and ``linearize`` are optional and make local solves faster; :func:`consensus.models.check` tries what there is.
    Shapes: w (agents, P), x (agents, samples, features), outputs (agents, samples, outputs), tangents v (agents,
    P), cotangents u like the outputs.
    """

    parameters: int  #: P
    outputs: int

    def init(self, rng):
        """A random start (P,)."""

    def predict(self, w, x):
        """f(w, x), shape (agents, samples, outputs)."""

    def vjp(self, w, x, u):
        """J' u, shape (agents, P), with the Jacobian J of f in w."""

    def jvp(self, w, x, v):
        """J v, shape (agents, samples, outputs)."""


def linearize(model, w, x):
    """Evaluate ``model`` at w and return ``(outputs, linearization)``.

    The linearization knows the Jacobian J of the outputs at w: ``vjp(u, out=None)``, ``jvp(v)`` and, where the model
    offers them, ``jacobian(columns=None)`` and ``gram()``. Models with a ``linearize`` method share the forward pass between
    all of these; for others every product starts anew.
    """
    _checks.model(model)
    if hasattr(model, "linearize"):
        return model.linearize(w, x)
    return model.predict(w, x), _Recomputed(model, w, x)


@dataclass(frozen=True)
class _Recomputed:
    """The linearization of a model that has none of its own; it offers what the model offers."""

    model: Model
    w: np.ndarray
    x: np.ndarray

    def vjp(self, u, out=None):
        result = self.model.vjp(self.w, self.x, u)
        if out is None:
            return result
        out[...] = result
        return out

    def jvp(self, v):
        return self.model.jvp(self.w, self.x, v)

    def __getattr__(self, name):
        if name == "jacobian" and hasattr(self.model, name):
            return self._jacobian
        if name == "gram" and hasattr(self.model, name):
            return lambda: self.model.gram(self.w, self.x)
        raise AttributeError(name)

    def _jacobian(self, columns=None):
        jacobian = self.model.jacobian(self.w, self.x)
        return jacobian if columns is None else jacobian[:, :, columns]
