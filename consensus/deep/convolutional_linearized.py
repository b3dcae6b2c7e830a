"""The Jacobian of a convolutional network."""

from __future__ import annotations

import numpy as np

from consensus.models.layers import LayeredProducts


class ConvolutionalLinearization(LayeredProducts):
    """Products with the Jacobian J of a convolutional network at fixed parameters and features, and the Jacobian itself.

    The row of J for sample m and output o holds, for a layer, the sum over pixels of the outer products of its patches and of
    the sensitivities df_o/da there.
    """

    def jacobian(self, columns: np.ndarray | None = None) -> np.ndarray:
        """Return J (agents, samples * outputs, P), or its ``columns``, given by a sorted integer array."""
        agents, samples, outputs = len(self._w), self._samples, self._model.outputs
        jacobian = np.empty((agents, samples, outputs, self._model.parameters), self._w.dtype)
        units = np.broadcast_to(np.eye(outputs, dtype=self._w.dtype)[:, None], (agents, outputs, samples, outputs))
        targets = self._model._split(jacobian)
        for layer, d in self._cotangents(units, several=True):
            weights, bias = targets[layer]
            h = self._inputs[layer].reshape(len(self._inputs[layer]), samples, 1, -1, self._inputs[layer].shape[-1])
            d = d.reshape(agents, outputs, samples, -1, d.shape[-1]).swapaxes(1, 2)  # (agents, samples, outputs, pixels, k)
            np.matmul(h.swapaxes(-1, -2), d, out=weights)
            bias[...] = d.sum(axis=-2, keepdims=True)
        found = jacobian.reshape(agents, samples * outputs, -1)
        return found if columns is None else found[..., columns]

    def gram(self) -> np.ndarray:
        """Return J J' (agents, samples * outputs, samples * outputs)."""
        jacobian = self.jacobian()
        return np.asarray(jacobian @ jacobian.swapaxes(1, 2))
