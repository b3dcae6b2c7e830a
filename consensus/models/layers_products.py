"""Products with the Jacobian of a model made of layers and with its transpose, by one forward pass."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from consensus import _checks, kernels
from consensus.models.layers_protocol import Layers

Axis: TypeAlias = Callable[[np.ndarray], np.ndarray]


class LayeredProducts:
    """Products with the Jacobian J of a layered model at fixed parameters and features."""

    several = True  # vjp and jvp take several (co)tangents of an agent at once

    def __init__(
        self,
        model: Layers,
        w: np.ndarray,
        weights: Sequence[np.ndarray],
        inputs: Sequence[np.ndarray],
        kept: Sequence[np.ndarray],
    ) -> None:
        self._model, self._w, self._weights, self._inputs, self._kept = model, w, weights, inputs, kept
        self._samples = inputs[-1].shape[1]
        self._slopes: dict[int, np.ndarray] = {}

    def _slope(self, layer: int) -> np.ndarray:
        """Return the derivative of the activation of ``layer``, computed once."""
        if layer not in self._slopes and self._model._activation is not None:
            self._slopes[layer] = self._model._activation.derivative(self._kept[layer])
        return self._slopes[layer]

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return J' u (agents, P) for u (agents, samples, outputs), written to ``out`` if given.

        For several cotangents u (agents, count, samples, outputs) its shape is (agents, count, P).
        """
        u = _checks.floats("u", u)
        wanted = (len(self._w), self._samples, self._model.outputs)
        if u.ndim not in (3, 4) or (len(u), *u.shape[-2:]) != wanted:
            raise ValueError(f"u must have shape {wanted} for {self._model}; got {u.shape}")
        of = for_several(u.ndim == 4)
        if out is None:
            out = np.empty((*u.shape[:-2], self._model.parameters), u.dtype)
        targets = self._model._split(out)
        for layer, d in self._cotangents(u, of):
            weights, bias = targets[layer]
            np.matmul(of(self._inputs[layer]).swapaxes(-1, -2), d, out=weights)
            if bias is not None:
                np.matmul(ones(d.shape[-2], d.dtype), d, out=bias)
        return out

    def _cotangents(self, u: np.ndarray, of: Axis) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each layer and the cotangents of its a = h W + b, from those of the outputs, u; backwards."""
        last = len(self._weights) - 1
        for layer in range(last, -1, -1):
            through = None
            if layer < last:
                through, u = self._model._joined_adjoint(layer, u)
                u = self._backward(u, layer, of)
            yield layer, u
            if layer > 0:
                u = self._model._rows_adjoint(layer, self._below(u, layer, of))
                if through is not None:
                    u += through

    def _below(self, d: np.ndarray, layer: int, of: Axis) -> np.ndarray:
        """Return the cotangents d W' of what a layer's weights multiply."""
        weights = of(self._weights[layer]).swapaxes(-1, -2)
        return kernels.outer(d[..., 0], weights[..., 0, :]) if d.shape[-1] == 1 else d @ weights

    def _backward(self, u: np.ndarray, layer: int, of: Axis) -> np.ndarray:
        """Multiply u by the slope of ``layer`` in place; slopes not needed elsewhere are not stored."""
        activation = self._model._activation
        if activation is not None and activation.backward is not None and layer not in self._slopes:
            return activation.backward(u, of(self._kept[layer]), out=u)
        u *= of(self._slope(layer))
        return u

    def jvp(self, v: np.ndarray) -> np.ndarray:
        """Return J v (agents, samples, outputs) for v (agents, P).

        For several tangents v (agents, count, P) its shape is (agents, count, samples, outputs).
        """
        v = _checks.floats("v", v)
        if v.ndim not in (2, 3) or (len(v), v.shape[-1]) != self._w.shape:
            raise ValueError(f"v must have the shape of w, {self._w.shape}, for {self._model}; got {v.shape}")
        of = for_several(v.ndim == 3)
        tangent: np.ndarray | None = None  # of the layer's inputs; the features themselves do not move
        for layer, (weights, bias) in enumerate(self._model._split(v)):
            moved = of(self._inputs[layer]) @ weights
            if tangent is not None:
                moved += self._model._rows(layer, tangent) @ of(self._weights[layer])
            if bias is not None:
                moved += bias
            if layer < len(self._kept):
                moved *= of(self._slope(layer))
                moved = self._model._joined(layer, tangent, moved)
            tangent = moved
        return np.asarray(tangent)


@functools.lru_cache(maxsize=16)
def ones(count: int, dtype: np.dtype) -> np.ndarray:
    """Return a row of ones, which adds up so many rows."""
    return np.ones((1, count), dtype)


def for_several(several: bool) -> Axis:
    """Return a function that adds an axis for ``several`` (co)tangents to the arrays of an agent, or the identity."""
    return (lambda array: array[:, None]) if several else (lambda array: array)
