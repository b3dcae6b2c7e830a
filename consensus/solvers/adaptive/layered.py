"""A curvature that is, layer by layer, a Kronecker product of two small matrices."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from consensus._parallel import for_chunks
from consensus.regularizers.base import Regularizer


class Nothing(NamedTuple):
    """The end of the layers."""


class Layer(NamedTuple):
    """``H = (Q x R) diag(values) (Q x R)'`` of the parameters of a layer, and those of the layers after it, ``next``.

    Fields: orthonormal Q and R, ``inputs`` (agents, m, m), where m counts the one that goes with the bias, and ``outputs``
    (agents, k, k); ``values`` (agents, m, k), not negative.
    """

    inputs: np.ndarray
    outputs: np.ndarray
    values: np.ndarray
    next: "Layer | Nothing"

    @classmethod
    def row(cls, layers: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> "Layer":
        """One after the other."""
        result: Layer | Nothing = Nothing()
        for inputs, outputs, values in reversed(list(layers)):
            result = cls(inputs, outputs, values, result)
        assert isinstance(result, Layer)
        return result

    def square(self, d: np.ndarray) -> np.ndarray:
        """``d' H d``, shape (agents,), for d (agents, P)."""
        total = np.zeros(len(d), d.dtype)

        def chunk(rows):
            for layer, part in self._parts(d):
                total[rows] += np.einsum("amk,amk->a", layer.values[rows], np.square(layer._turned(part, rows)))

        self._for_chunks(chunk, len(d))
        return total

    def minimiser(self, tau: np.ndarray, w: np.ndarray, slope: np.ndarray, prox: Regularizer | None) -> np.ndarray:
        """The d (agents, P) of least ``slope . d + 1/2 d' H d + tau/2 |d|^2``; there is no ``prox``."""
        d = np.empty_like(slope)

        def chunk(rows):
            for (layer, part), (_, result) in zip(self._parts(slope), self._parts(d), strict=True):
                turned = layer._turned(part, rows)
                turned /= -(layer.values[rows] + tau[rows, None, None])
                result[rows] = layer.inputs[rows] @ (turned @ layer.outputs[rows].swapaxes(1, 2))

        self._for_chunks(chunk, len(d))
        return d

    def rank(self) -> np.ndarray:
        """How many directions have curvature (agents,)."""
        rank: np.ndarray = sum((layer.values > 0).sum(axis=(1, 2)) for layer in self._all())  # type: ignore[assignment]
        return rank

    def _all(self) -> "Iterator[Layer]":
        layer: Layer | Nothing = self
        while isinstance(layer, Layer):
            yield layer
            layer = layer.next

    def _parts(self, d):
        """The layers, each with its part of d (agents, P): views (agents, m, k)."""
        start = 0
        for layer in self._all():
            _, m, k = layer.values.shape
            yield layer, d[:, start : start + m * k].reshape(-1, m, k)
            start += m * k

    def _turned(self, d, rows):
        return self.inputs[rows].swapaxes(1, 2) @ d[rows] @ self.outputs[rows]

    def _for_chunks(self, chunk, agents):
        operations = sum(layer.values[0].size * (layer.inputs.shape[1] + layer.outputs.shape[1]) for layer in self._all())
        for_chunks(chunk, agents, sum(3 * layer.values[0].nbytes + layer.inputs[0].nbytes for layer in self._all()), operations)
