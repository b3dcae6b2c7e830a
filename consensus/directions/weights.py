"""Places of the layers' weights among a model's parameters."""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from consensus.problems import BaseProblem

Chosen: TypeAlias = Callable[[str, tuple[int, ...]], bool]  # of an array's name and shape


class _Named(Protocol):
    """A named array in the parameter vector, as in :class:`consensus.Model`'s ``layout``."""

    @property
    def name(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def outputs(self) -> int: ...


class Place(NamedTuple):
    """Place of a layer's weights in the parameter vector: from ``start`` on, (rows, columns) row by row.

    Rows are outputs, or with ``transposed`` inputs.
    """

    start: int
    rows: int
    columns: int
    transposed: bool

    def read(self, w: np.ndarray) -> np.ndarray:
        """Return the weights (agents, outputs, inputs) out of ``w`` (agents, P), a new array or a view."""
        found = w[:, self.start : self.start + self.rows * self.columns].reshape(len(w), self.rows, self.columns)
        return found.swapaxes(1, 2) if self.transposed else found

    def write(self, w: np.ndarray, weights: np.ndarray) -> None:
        """Write the weights (agents, outputs, inputs) into ``w`` (agents, P)."""
        found = weights.swapaxes(1, 2) if self.transposed else weights
        w[:, self.start : self.start + self.rows * self.columns] = found.reshape(len(w), self.rows * self.columns)


class Weights(NamedTuple):
    """The places of the layers' weights, and the slices of all other parameters."""

    matrices: tuple[Place, ...]
    others: tuple[slice, ...]

    def taken(self, w: np.ndarray) -> np.ndarray:
        """Return the other parameters (agents, others) out of ``w`` (agents, P)."""
        return np.concatenate([w[:, :0], *(w[:, part] for part in self.others)], axis=1)

    def put(self, w: np.ndarray, others: np.ndarray) -> None:
        """Write the other parameters into ``w`` (agents, P)."""
        start = 0
        for part in self.others:
            end = start + part.stop - part.start
            w[:, part] = others[:, start:end]
            start = end


def weights_of(problem: BaseProblem, chosen: Chosen | None = None, whole: bool = False) -> Weights:
    """Return where the layers' weights of a problem's model are, of all or of the ``chosen`` ones.

    ``whole`` asks whether the layout covers all parameters.

    Raises
    ------
    TypeError
        If there is no model, or it has no ``layout``.
    ValueError
        If the layout does not cover the parameters.
    """
    model = getattr(problem, "model", None)
    layout: tuple[_Named, ...] | None = getattr(model, "layout", None)
    if layout is None:
        lacks = f"{problem} has no model" if model is None else f"{model} has none"
        raise TypeError(
            f"Muon needs the shapes of the layers' weights, the model's layout, and {lacks}: take MLP, Linear, models.Torch or "
            "models.JAX, give your model a layout (see consensus.Model), or use consensus.directions.AdamW"
        )
    covered = sum(math.prod(part.shape) for part in layout) if whole else problem.parameters
    if covered != problem.parameters:
        raise ValueError(f"the layout of {model} must cover its {problem.parameters} parameters; it covers {covered}")
    matrices, others = [], []
    for part in layout:
        size = math.prod(part.shape)
        if len(part.shape) < 2 or not (chosen is None or chosen(part.name, part.shape)):
            others.append(slice(part.start, part.start + size))
        else:
            outputs = part.shape[part.outputs]
            inputs, last = size // outputs, part.outputs != 0
            matrices.append(Place(part.start, *((inputs, outputs) if last else (outputs, inputs)), last))
    return Weights(tuple(matrices), tuple(others))
