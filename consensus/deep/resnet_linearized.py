"""Products with the Jacobian of a residual network."""

from collections.abc import Iterator

import numpy as np

from consensus.models.layers import Layered, LayeredLinearization


class ResidualLayers(Layered):
    """Layers of which all but the first and the last add a step to their inputs."""

    step: float


class ResidualLinearization(LayeredLinearization):
    """Products with the Jacobian J of a residual network at fixed parameters and features.

    The cotangents g of the states go backwards by ``g_{k-1} = g_k + d_k W_k'``, with ``d_k = step g_k s'(a_k)`` those of
    ``a_k = u_{k-1} W_k + b_k``.
    """

    _model: ResidualLayers

    def _sensitivities(self) -> Iterator[np.ndarray]:
        g = self._weights[-1].swapaxes(1, 2)[:, None]  # (agents, samples, outputs, width), the same for all samples
        for layer in range(len(self._kept) - 1, 0, -1):
            d = self._model.step * g * self._slope(layer)[:, :, None, :]
            yield d
            agents, samples, outputs, width = d.shape
            below = d.reshape(agents, -1, width) @ self._weights[layer].swapaxes(1, 2)
            g = g + below.reshape(agents, samples, outputs, width)
        yield g * self._slope(0)[:, :, None, :]
