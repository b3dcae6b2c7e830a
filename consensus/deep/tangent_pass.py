"""A pass through layers with derivatives along directions in the features, and products with the Jacobian of both."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from consensus import _checks
from consensus.deep.convolutional import Convolutional
from consensus.deep.resnet import ResNet
from consensus.models.layers import ones
from consensus.models.mlp import MLP


class _WithTangents(Protocol):
    """Part of :class:`consensus.models.WithTangents` that :class:`TangentPass` uses."""

    model: MLP | Convolutional | ResNet
    count: int

    def vjp(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return J' u."""


class _Bends(NamedTuple):
    """Derivatives ``s'``, ``s''`` (agents, 1, rows, k) of a layer's activation, and those t (agents, T, rows, k) of a."""

    slope: np.ndarray
    bend: np.ndarray
    t: np.ndarray


class _Layer(NamedTuple):
    """Weights (agents, 1, m, k), rows (agents, 1, rows, m) that they multiply, and those (agents, T, ...) of derivatives."""

    weights: np.ndarray
    rows: np.ndarray
    moved: np.ndarray
    bends: _Bends | None  # of the last layer, which has no activation


class TangentPass:
    """The outputs of a :class:`WithTangents` at fixed parameters and features, and products with their Jacobian J."""

    def __init__(self, model: _WithTangents, w: np.ndarray, x: np.ndarray, directions: np.ndarray) -> None:
        self._with, self._model, self._w, self._x = model, model.model, w, x
        self._layers: list[_Layer] = []
        self.outputs = self._forward(x[:, None], directions)  # (agents, samples, outputs)

    def _forward(self, h: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Return the outputs, from features h (agents, 1, samples, ...) and directions k (agents, T, samples, ...)."""
        model, last = self._model, len(self._model._spans) - 1
        activation = model._activation
        assert activation is not None, "of one layer there are no second derivatives"
        for layer, (weights, bias) in enumerate(model._split(self._w[:, None])):
            rows, moved = model._rows(layer, h), model._rows(layer, k)
            a, t = rows @ weights, moved @ weights
            if layer == last:
                self._layers.append(_Layer(weights, rows, moved, None))
                return self._joined(a + bias, t)
            s, kept = activation.apply(a, bias)
            slope = activation.derivative(kept)
            self._layers.append(_Layer(weights, rows, moved, _Bends(slope, activation.bend(kept), t)))
            h, k = model._joined(layer, h, s), model._joined(layer, k, slope * t)
        raise AssertionError("there is a last layer")

    def _joined(self, f: np.ndarray, derivatives: np.ndarray) -> np.ndarray:
        """Return f (agents, 1, samples, K) and derivatives (agents, T, samples, K) as (agents, samples, outputs)."""
        both = np.concatenate([f, derivatives], axis=1).swapaxes(1, 2)
        return both.reshape(*both.shape[:2], -1)

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return J' u (agents, P) for u (agents, samples, outputs), written to ``out`` if given."""
        u = _checks.floats("u", u)
        if u.shape != self.outputs.shape:
            raise ValueError(f"u must have shape {self.outputs.shape} for {self._with}; got {u.shape}")
        out = np.empty_like(self._w) if out is None else out
        both = u.reshape(*u.shape[:2], 1 + self._with.count, -1).swapaxes(1, 2)
        p, q = both[:, :1], both[:, 1:]
        for layer in range(len(self._layers) - 1, -1, -1):
            weights, rows, moved, bends = self._layers[layer]
            through: list[np.ndarray | None] = [None, None]
            if bends is not None:
                (through[0], p), (through[1], q) = (self._model._joined_adjoint(layer, u) for u in (p, q))
                p = bends.slope * p + bends.bend * (bends.t * q).sum(axis=1, keepdims=True)
                q = bends.slope * q
            target, bias = self._model._split(out)[layer]
            np.matmul(rows[:, 0].swapaxes(-1, -2), p[:, 0], out=target)
            target += (moved.swapaxes(-1, -2) @ q).sum(axis=1)
            np.matmul(ones(p.shape[-2], p.dtype), p[:, 0], out=bias)
            if layer > 0:
                p, q = (self._model._rows_adjoint(layer, d @ weights.swapaxes(-1, -2)) for d in (p, q))
                p, q = (d if more is None else d + more for d, more in zip((p, q), through, strict=True))
        return out

    def jvp(self, v: np.ndarray) -> np.ndarray:
        """Return J v (agents, samples, outputs) for v (agents, P)."""
        v = _checks.floats("v", v)
        if v.shape != self._w.shape:
            raise ValueError(f"v must have the shape of w, {self._w.shape}, for {self._with}; got {v.shape}")
        dh: np.ndarray | None = None  # of the layer's inputs and of their derivatives; features and directions do not move
        dk: np.ndarray | None = None
        for layer, (change, bias) in enumerate(self._model._split(v[:, None])):
            weights, rows, moved, bends = self._layers[layer]
            da, dt = rows @ change + bias, moved @ change
            if dh is not None and dk is not None:
                da += self._model._rows(layer, dh) @ weights
                dt += self._model._rows(layer, dk) @ weights
            if bends is None:
                return self._joined(da, dt)
            dh = self._model._joined(layer, dh, bends.slope * da)
            dk = self._model._joined(layer, dk, bends.slope * dt + bends.bend * bends.t * da)
        raise AssertionError("there is a last layer")

    def jacobian(self, columns: np.ndarray | None = None) -> np.ndarray:
        """Return J (agents, samples * outputs, P), or its ``columns``, given by a sorted integer array.

        An agent stands for each row, so that one pass makes them all.
        """
        agents, samples, outputs = self.outputs.shape
        w = np.repeat(self._w, samples * outputs, axis=0)
        x = np.broadcast_to(self._x, (agents, *self._x.shape[1:])).reshape(-1, 1, *self._x.shape[2:])
        u = np.tile(np.eye(outputs, dtype=w.dtype), (agents * samples, 1))[:, None]
        found = self._with.vjp(w, np.repeat(x, outputs, axis=0), u).reshape(agents, samples * outputs, -1)
        return found if columns is None else found[..., columns]
