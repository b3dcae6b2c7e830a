"""Neural networks whose matrices are spread over the ranks of a grid."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from consensus.centralised.tensor.grid import Grid


class Sharded(Protocol):
    """A rank's part of a network; all ranks of the ``grid`` call each method together.

    Attributes
    ----------
    grid : Grid
        The ranks.
    held : tuple of int
        Bytes that this rank has of parameters, and of activations since the last pass forward.
    """

    grid: Grid

    @property
    def held(self) -> tuple[int, int]: ...

    def take(self, w: np.ndarray) -> None:
        """Take this rank's parameters from those of all, w (P,)."""

    def block(self, whole: np.ndarray, outputs: bool = False) -> np.ndarray:
        """Return this rank's block of features (samples, inputs) or, with ``outputs``, of cotangents (samples, outputs)."""

    def put(self, block: np.ndarray, whole: np.ndarray) -> None:
        """Write this rank's block of the outputs to where it belongs in (samples, outputs)."""

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Return this rank's block of the outputs, from that of the features; the pass is remembered."""

    def backward(self, u: np.ndarray) -> Sequence[np.ndarray]:
        """Return this rank's part of the gradient J' u, from its block of u, for the last pass forward."""

    def write(self, slopes: Sequence[np.ndarray], gradient: np.ndarray) -> None:
        """Write what :meth:`backward` returns to where it belongs in the gradient (P,)."""
