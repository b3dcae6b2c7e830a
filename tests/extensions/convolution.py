"""A network with a convolution, written from the documentation of Model alone: its required methods and nothing else."""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


@dataclass(frozen=True)
class Convolution:
    """``f = mean_t tanh(K' x[t : t + width] + b) V + c``: filters along the features of a sample, their mean, a linear layer.

    The parameter vector holds K (width, filters), b (filters,), V (filters, outputs), c (outputs,).
    """

    width: int
    filters: int
    outputs: int = 1

    @property
    def parameters(self):
        return (self.width + 1 + self.outputs) * self.filters + self.outputs

    def init(self, rng):
        return rng.standard_normal(self.parameters) / np.sqrt(self.width + self.filters)

    def _split(self, w):
        """K, b, V, c of every agent, with axes of one to go with samples and places."""
        ends = np.cumsum([self.width * self.filters, self.filters, self.filters * self.outputs])
        K, b, V, c = np.split(w, ends, axis=1)
        K, V = K.reshape(-1, 1, self.width, self.filters), V.reshape(-1, self.filters, self.outputs)
        return K, b[:, None, None], V, c[:, None]

    def _forward(self, w, x):
        windows = sliding_window_view(x, self.width, axis=2)  # (agents, samples, places, width)
        K, b, V, c = self._split(w)
        h = np.tanh(windows @ K + b)
        return windows, h, V, h.mean(axis=2) @ V + c

    def predict(self, w, x):
        return self._forward(w, x)[3]

    def jvp(self, w, x, v):
        windows, h, V, _ = self._forward(w, x)
        dK, db, dV, dc = self._split(v)
        moved = (1 - h * h) * (windows @ dK + db)
        return moved.mean(axis=2) @ V + h.mean(axis=2) @ dV + dc

    def vjp(self, w, x, u):
        windows, h, V, _ = self._forward(w, x)
        agents, _, places, _ = windows.shape
        back = (1 - h * h) * (u @ V.swapaxes(1, 2) / places)[:, :, None]
        dK = windows.reshape(agents, -1, self.width).swapaxes(1, 2) @ back.reshape(agents, -1, self.filters)
        dV = h.mean(axis=2).swapaxes(1, 2) @ u
        parts = dK, back.sum(axis=(1, 2)), dV, u.sum(axis=1)
        return np.concatenate([part.reshape(agents, -1) for part in parts], axis=1)
