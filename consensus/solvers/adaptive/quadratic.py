"""What an agent knows of the network's costs."""

from typing import NamedTuple

import numpy as np


class Quadratic(NamedTuple):
    """Every agent's model of the network's costs around its w: their sum at w + d is near ``T + G . d + 1/2 |V' d|^2``.

    Fields: ``total`` T (agents,), ``slope`` G (agents, P), ``V`` (agents, P, columns).
    """

    total: np.ndarray
    slope: np.ndarray
    V: np.ndarray

    @classmethod
    def unknown(cls, w: np.ndarray) -> "Quadratic":
        """Nothing known yet, at w (agents, P): no slope and no curvature."""
        return cls(np.zeros(len(w), w.dtype), np.zeros_like(w), np.zeros((*w.shape, 1), w.dtype))

    def change(self, d: np.ndarray, weight: float) -> np.ndarray:
        """``G . d + 1/2 |V' d|^2 + weight/2 |d|^2``, shape (agents,): the change along d with a quadratic r's curvature."""
        image = (d[:, None, :] @ self.V)[:, 0]
        return np.vecdot(self.slope, d) + (np.vecdot(image, image) + weight * np.vecdot(d, d)) / 2

    def of(self, agents: np.ndarray) -> "Quadratic":
        """The models of some ``agents``, an array of indices."""
        return Quadratic(*(field[agents] for field in self))
