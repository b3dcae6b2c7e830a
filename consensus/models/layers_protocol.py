"""The part of a layered model that its linearization uses."""

from typing import Any, Protocol

import numpy as np

from consensus.models.activations import Activation


class Layers(Protocol):
    """A model made of layers, without its products."""

    parameters: int
    outputs: int
    bias: bool
    _spans: list[tuple[int, int, int, int, int]]
    _activation: Activation | None

    def _split(self, w: np.ndarray) -> list[tuple[np.ndarray, Any]]: ...
    def _rows(self, layer: int, h: np.ndarray) -> np.ndarray: ...
    def _rows_adjoint(self, layer: int, u: np.ndarray) -> np.ndarray: ...
    def _joined(self, layer: int, inputs: np.ndarray | None, h: np.ndarray) -> np.ndarray: ...
    def _joined_adjoint(self, layer: int, u: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]: ...


class ResidualLayers(Layers, Protocol):
    """Layers of which all but the first and the last add a step to their inputs."""

    step: float
