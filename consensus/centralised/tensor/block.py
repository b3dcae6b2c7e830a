"""The block of a linear map that a rank has."""

from typing import NamedTuple

import numpy as np

from consensus.workers.blocks import blocks_of


class Block(NamedTuple):
    """One of ``rows x columns`` blocks of the map ``x W + b``, or one of its ``parts`` equal parts.

    The block (row, column) of W goes with the piece ``row`` of the numbers of b for these columns. So the products of the
    blocks of a column sum up to ``x W + b``, and no rank has another's number. A block is flat: W's numbers row by row, then
    b's. Its parts have equal lengths, the last one with zeros at its end if need be.
    """

    inputs: int
    outputs: int
    row: int = 0
    rows: int = 1
    column: int = 0
    columns: int = 1
    part: int = 0
    parts: int = 1

    @property
    def shape(self) -> tuple[int, int]:
        """Inputs and outputs of the block."""
        return self.inputs // self.rows, self.outputs // self.columns

    @property
    def piece(self) -> slice:
        """The block's outputs to which it adds a bias."""
        return blocks_of(self.shape[1], self.rows)[self.row]

    @property
    def numbers(self) -> int:
        """Numbers of W and b in the block."""
        m, k = self.shape
        return m * k + int(self.piece.stop - self.piece.start)

    @property
    def size(self) -> int:
        """Numbers of a part."""
        return -(-self.numbers // self.parts)

    def views(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the W and b of a whole block (numbers,), as views."""
        m, k = self.shape
        return flat[: m * k].reshape(m, k), flat[m * k : self.numbers]

    def own(self, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Return the part (size,) of W (inputs, outputs) and b (outputs,) that this rank has."""
        flat = np.zeros(self.size, weights.dtype)
        for whole, theirs, its in self._meetings(weights, bias):
            flat[its] = whole.flat[theirs]
        return flat

    def write(self, flat: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> None:
        """Write the part that this rank has to where it belongs in W and b."""
        for whole, theirs, its in self._meetings(weights, bias):
            whole.flat[theirs] = flat[its]

    def _meetings(self, weights: np.ndarray, bias: np.ndarray) -> list[tuple[np.ndarray, slice, slice]]:
        """Return the block's views of W and b, which of their numbers are in this part, and where."""
        (m, k), piece, first, found = self.shape, self.piece, self.part * self.size, []
        block = weights[self.row * m : (self.row + 1) * m, self.column * k : (self.column + 1) * k]
        for view, start in ((block, 0), (bias[self.column * k + piece.start : self.column * k + piece.stop], m * k)):
            low, high = max(first, start), min(first + self.size, start + view.size)
            if low < high:
                found.append((view, slice(low - start, high - start), slice(low - first, high - first)))
        return found

    def add_product(self, x: np.ndarray, flat: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return x W plus the own piece of b, added to ``out`` if given."""
        weights, bias = self.views(flat)
        y: np.ndarray = x @ weights
        y[:, self.piece] += bias
        if out is None:
            return y
        out += y
        return out

    def slopes(self, x: np.ndarray, dy: np.ndarray, room: int | None = None) -> np.ndarray:
        """Return the gradient by the block, flat, with zeros up to ``room`` numbers if given."""
        flat = np.zeros(self.numbers if room is None else room, dy.dtype)
        weights, bias = self.views(flat)
        np.matmul(x.T, dy, out=weights)
        np.sum(dy[:, self.piece], axis=0, out=bias)
        return flat
