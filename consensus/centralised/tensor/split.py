"""Base class of the splits in one, two and three dimensions."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from consensus import _checks
from consensus.centralised.tensor.block import Block
from consensus.centralised.tensor.grid import DIMENSIONS, Grid, side


class Split(ABC):
    """Distribution of matrices and linear maps over a grid of ranks.

    Linear maps come in pairs. Matrices are in ``stage`` 0 before the first one of a pair and after the second one, and in stage
    1 between them. In each stage the rows of a matrix are split along some axes of the grid, one after another, and its columns
    along one other axis or none.
    """

    row_axes: ClassVar[tuple[tuple[int, ...], tuple[int, ...]]]  #: by stage
    column_axis: ClassVar[tuple[int | None, int | None]]  #: by stage

    def __init__(self, grid: Grid) -> None:
        self.grid = grid

    @abstractmethod
    def block(self, stage: int, inputs: int, outputs: int) -> Block:
        """Return this rank's block of a linear map of matrices in a stage to those in the other one."""

    @abstractmethod
    def forward(self, stage: int, block: Block, x: np.ndarray, flat: np.ndarray) -> np.ndarray:
        """Return this rank's block of ``x W + b``, from its blocks of x in a stage and of the map."""

    def incoming(self, stage: int, dy: np.ndarray) -> np.ndarray:
        """Return what the two methods below need of the gradient by the result, from this rank's block of it."""
        return dy

    @abstractmethod
    def slopes(self, stage: int, block: Block, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        """Return this rank's block of the gradient by the map, from what :meth:`incoming` returns."""

    @abstractmethod
    def below(self, stage: int, block: Block, flat: np.ndarray, dy: np.ndarray) -> np.ndarray:
        """Return this rank's block of the gradient by x, from what :meth:`incoming` returns."""

    def backward(
        self, stage: int, block: Block, x: np.ndarray, flat: np.ndarray, dy: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return this rank's blocks of the gradients by x and by the map."""
        dy = self.incoming(stage, dy)
        return self.below(stage, block, flat, dy), self.slopes(stage, block, x, dy)

    @property
    def row_parts(self) -> int:
        """Number of parts that rows are split into, in both stages."""
        return int(self.grid.side ** len(self.row_axes[0]))

    def rows(self, stage: int, count: int) -> slice:
        """Return which of ``count`` rows this rank has, a multiple of :meth:`row_parts`."""
        start = 0
        for axis in self.row_axes[stage]:
            count //= self.grid.side
            start += self.grid.at[axis] * count
        return slice(start, start + count)

    def columns(self, stage: int, count: int) -> slice:
        """Return which of ``count`` columns this rank has."""
        axis = self.column_axis[stage]
        if axis is None:
            return slice(0, count)
        count //= self.grid.side
        return slice(self.grid.at[axis] * count, (self.grid.at[axis] + 1) * count)

    def taken(self, stage: int, whole: np.ndarray, unit: int = 1) -> np.ndarray:
        """Return this rank's block of a matrix; ``unit`` rows stay together, with zeros after the last ones if need be."""
        rows = self._padded(stage, len(whole), unit)
        own = whole[rows, self.columns(stage, whole.shape[1])]
        block = np.zeros((rows.stop - rows.start, own.shape[1]), whole.dtype)
        block[: len(own)] = own
        return block

    def put(self, stage: int, block: np.ndarray, whole: np.ndarray, unit: int = 1) -> None:
        """Write this rank's block to where it belongs in a matrix, but the rows of zeros; of equal blocks, the first rank's."""
        if self.column_axis[stage] is None and self.grid.ranks.me:
            return
        room = whole[self._padded(stage, len(whole), unit), self.columns(stage, whole.shape[1])]
        room[...] = block[: len(room)]

    def _padded(self, stage: int, count: int, unit: int) -> slice:
        """Return which rows this rank has of ``count`` and those of zeros after them."""
        each = unit * self.row_parts
        return self.rows(stage, -(-count // each) * each)


def side_in_words(split: str, workers: int) -> str:
    """Return what the side of a grid is, for messages."""
    grid = " x ".join([str(side(split, workers))] * DIMENSIONS[split])
    return "the number of workers" if split == "1d" else f"the side of {grid} workers"


def divided(name: str, values: Any, parts: int, split: str, what: str) -> None:  # noqa: ANN401 (a number or several)
    """Raise ``ValueError`` if one of the ``values`` is no multiple of ``parts``."""
    several = isinstance(values, list | tuple)
    for place, value in enumerate(values if several else [values]):
        if value % parts:
            of = f"{name}[{place}]" if several else name
            raise ValueError(f"{of} must be a multiple of {parts}, {what} for split={split!r}; got {_checks.shown(value)}")
