"""Layers of affine maps and activations on stacked parameters: the arithmetic behind Linear and MLP.

A layer l takes inputs h (samples, m) to a = h W + b, with W (m, k) stored row by row and then b (k,) in the parameter
vector, and to its activation. Everything is a batched matrix product over agents; NumPy hands each agent's to BLAS.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from consensus import _checks
from consensus.models.activations import Activation
from consensus.models.layers_linearized import LayeredLinearization
from consensus.models.layout import NamedArray
from consensus.models.linearized import Linearized


class Layered(Linearized):
    """A model made of layers.

    Subclasses set ``widths``, ``bias`` and ``activation``: an ``Activation``, or None of a single layer. Several have biases.
    """

    def __init__(self, widths: Sequence[int], bias: bool, activation: Activation | None) -> None:
        self.widths, self.bias, self._activation = tuple(widths), bias, activation
        self._spans, start = [], 0
        for inputs, outputs in itertools.pairwise(widths):
            weights = start + inputs * outputs
            end = weights + (outputs if bias else 0)
            self._spans.append((start, weights, end, inputs, outputs))
            start = end
        self.parameters = start  #: P
        self.features, self.outputs = self.widths[0], self.widths[-1]

    @property
    def matrices(self) -> tuple[tuple[int, int, int], ...]:
        """Places of the layers' weights in the parameter vector: (start, m, k), m k numbers from start on, row by row."""
        return tuple((start, m, k) for start, _, _, m, k in self._spans)

    @property
    def layout(self) -> tuple[NamedArray, ...]:
        """Names, places and shapes of the layers' weights and biases."""
        found = []
        for layer, (start, weights, end, m, k) in enumerate(self._spans):
            found.append(NamedArray(f"{layer}.weight", start, (m, k), -1))
            found += [NamedArray(f"{layer}.bias", weights, (k,), -1)] if end > weights else []
        return tuple(found)

    def _split(self, w: np.ndarray) -> list[tuple[np.ndarray, Any]]:
        """Return views of every layer's weights (..., m, k) and biases (..., 1, k) or None, for w (..., P)."""
        parts, of = [], w.shape[:-1]
        for start, weights, end, m, k in self._spans:
            bias = w[..., weights:end].reshape(*of, 1, k) if self.bias else None
            parts.append((w[..., start:weights].reshape(*of, m, k), bias))
        return parts

    def _forward(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        """Return the outputs, and per layer its weights, its inputs and the argument of the derivative of its activation."""
        matrices, inputs, kept, last = [], [], [], len(self._spans) - 1
        h = x
        for layer, (weights, bias) in enumerate(self._split(w)):
            matrices.append(weights)
            inputs.append(h)
            h = h @ weights
            if layer < last and self._activation is not None:
                h, keep = self._activation.apply(h, bias)
                kept.append(keep)
            elif bias is not None:
                h += bias
        return h, matrices, inputs, kept

    def _predicted(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self._forward(*self._check(w, x))[0]

    def linearize(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, LayeredLinearization]:
        w, x = self._check(w, x)
        outputs, *parts = self._forward(w, x)
        return outputs, LayeredLinearization(self, w, *parts)

    def _check(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``w`` and ``x`` as arrays of floats; raise ``TypeError`` or ``ValueError`` if they do not fit the model."""
        w, x = _checks.floats("w", w), _checks.floats("x", x)
        if w.ndim != 2 or w.shape[1] != self.parameters:
            raise ValueError(f"w must have shape (agents, {self.parameters}) for {self}; got {w.shape}")
        if x.ndim != 3 or x.shape[2] != self.features or x.shape[0] not in (1, len(w)):
            raise ValueError(f"x must have shape ({len(w)}, samples, {self.features}) for {self}; got {x.shape}")
        return w, x
