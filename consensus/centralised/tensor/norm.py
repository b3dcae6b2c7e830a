"""Layer normalisation of rows that are spread over ranks by columns."""

from typing import NamedTuple

import numpy as np

from consensus.centralised.tensor.split import Split

EPSILON = 1e-5


class Normalised(NamedTuple):
    """Rows less their mean over their standard deviation, and one over the latter (rows, 1): what the pass backward needs."""

    rows: np.ndarray
    scale: np.ndarray


class Norm:
    """The map ``(x - mean) / sqrt(variance + 1e-5) gain + shift`` of the rows of a matrix in stage 0, of ``width`` columns.

    The ranks that have the same columns share the gain and the shift, each with an equal part of both, flat; on a line each
    rank has all of them. Sums over columns are taken along the lines over which they are spread.

    References
    ----------
    Ba, Kiros, Hinton, "Layer normalization", 2016.
    """

    def __init__(self, split: Split, width: int) -> None:
        self._split, self._width, self._axes = split, width, split.row_axes[0]
        self._columns = split.columns(0, width)
        self._count = self._columns.stop - self._columns.start
        grid, self._parts, part = split.grid, split.row_parts, 0
        for axis in self._axes:
            part = part * grid.side + grid.at[axis]
        self.size = -(-2 * self._count // self._parts)  #: numbers that a rank has
        self._start = part * self.size

    def own(self, gain: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Return the part of the gain and the shift (width,) that this rank has."""
        whole = np.zeros(self._parts * self.size, gain.dtype)
        whole[: 2 * self._count] = np.concatenate([gain[self._columns], shift[self._columns]])
        return whole[self._start : self._start + self.size].copy()

    def write(self, flat: np.ndarray, gain: np.ndarray, shift: np.ndarray) -> None:
        """Write the part that this rank has to where it belongs in the gain and the shift."""
        n, first = self._count, self._columns.start
        for array, start in ((gain, 0), (shift, n)):
            low, high = max(self._start, start), min(self._start + self.size, start + n)
            if low < high:
                array[first + low - start : first + high - start] = flat[low - self._start : high - self._start]

    def forward(self, x: np.ndarray, flat: np.ndarray) -> tuple[np.ndarray, Normalised]:
        """Return this rank's block of the normalised rows, with gain and shift, and what the pass backward needs."""
        rows = x - self._mean(x.sum(axis=1, keepdims=True))
        scale = 1 / np.sqrt(self._mean(np.square(rows).sum(axis=1, keepdims=True)) + EPSILON)
        rows *= scale
        gain, shift = self.whole(flat)
        return rows * gain + shift, Normalised(rows, scale)

    def whole(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gain and the shift of this rank's columns."""
        for axis in reversed(self._axes):
            flat = self._split.grid.gather(flat, axis).reshape(-1)
        return flat[: self._count], flat[self._count : 2 * self._count]

    def backward(self, dy: np.ndarray, kept: Normalised, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return this rank's block of the gradient by the rows, and its part of that by gain and shift."""
        of_gain = np.zeros(self._parts * self.size, dy.dtype)
        of_gain[: self._count] = np.einsum("rc,rc->c", dy, kept.rows)
        of_gain[self._count : 2 * self._count] = dy.sum(axis=0)
        for axis in self._axes:
            of_gain = self._split.grid.scatter_sum(of_gain.reshape(self._split.grid.side, -1), axis)
        d = dy * gain
        sums = np.stack([d.sum(axis=1), np.einsum("rc,rc->r", d, kept.rows)], axis=1)
        means = self._mean(sums)
        dx: np.ndarray = (d - means[:, :1] - kept.rows * means[:, 1:]) * kept.scale
        return dx, of_gain

    def _mean(self, sums: np.ndarray) -> np.ndarray:
        """Return means over all columns from this rank's sums over its own."""
        axis = self._split.column_axis[0]
        total = sums if axis is None else self._split.grid.total(sums, axis)
        mean: np.ndarray = total / self._width
        return mean
