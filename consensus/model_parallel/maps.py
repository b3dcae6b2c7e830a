"""Maps between the spread ones: activations, attention, layer norm."""

from typing import NamedTuple

import numpy as np

from consensus.model_parallel.splits import Split
from consensus.models.activations import Activation


def activated(activation: Activation, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the activation of a block (rows, columns), which it may overwrite, and what :func:`sloped` needs."""
    h, kept = activation.apply(a[None], np.zeros((1, 1, a.shape[1]), a.dtype))
    return h[0], kept[0]


def sloped(activation: Activation, d: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return ``d`` times the slope of the activation."""
    if activation.backward is not None:
        done: np.ndarray = activation.backward(d[None], kept[None], out=d[None])[0]
        return done
    slope: np.ndarray = activation.derivative(kept[None])[0]
    slope *= d
    return slope


def attention(a: np.ndarray, sequence: int, heads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``softmax(Q K' / sqrt(d)) V`` (tokens, heads d), and the weights (sequences, heads, sequence, sequence).

    The rows of ``a`` (tokens, heads 3 d) are tokens of one sequence after another, with the query, key and value of each head
    side by side.
    """
    query, key, value = _of_heads(a, sequence, heads)
    scores = query @ key.swapaxes(-1, -2)
    scores /= np.sqrt(query.shape[-1])
    scores -= scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores, out=scores)
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ value).swapaxes(1, 2).reshape(len(a), -1), weights


def attention_slopes(a: np.ndarray, weights: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Return the gradient by ``a``, from that by the result of :func:`attention` and its weights."""
    heads, sequence = weights.shape[1:3]
    query, key, value = _of_heads(a, sequence, heads)
    da = np.empty_like(a)
    of_query, of_key, of_value = _of_heads(da, sequence, heads)
    d = dy.reshape(-1, sequence, heads, query.shape[-1]).swapaxes(1, 2)
    of_value[...] = weights.swapaxes(-1, -2) @ d
    of_weights = d @ value.swapaxes(-1, -2)
    of_weights -= (of_weights * weights).sum(axis=-1, keepdims=True)
    of_weights *= weights
    of_weights /= np.sqrt(query.shape[-1])
    of_query[...] = of_weights @ key
    of_key[...] = of_weights.swapaxes(-1, -2) @ query
    return da


def _of_heads(a: np.ndarray, sequence: int, heads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return queries, keys and values (sequences, heads, sequence, d), as views."""
    parts = a.reshape(-1, sequence, heads, 3, a.shape[1] // (3 * heads)).transpose(3, 0, 2, 1, 4)
    return parts[0], parts[1], parts[2]


EPSILON = 1e-5


class Normalized(NamedTuple):
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

    def forward(self, x: np.ndarray, flat: np.ndarray) -> tuple[np.ndarray, Normalized]:
        """Return this rank's block of the normalised rows, with gain and shift, and what the pass backward needs."""
        rows = x - self._mean(x.sum(axis=1, keepdims=True))
        scale = 1 / np.sqrt(self._mean(np.square(rows).sum(axis=1, keepdims=True)) + EPSILON)
        rows *= scale
        gain, shift = self.whole(flat)
        return rows * gain + shift, Normalized(rows, scale)

    def whole(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gain and the shift of this rank's columns."""
        for axis in reversed(self._axes):
            flat = self._split.grid.gather(flat, axis).reshape(-1)
        return flat[: self._count], flat[self._count : 2 * self._count]

    def backward(self, dy: np.ndarray, kept: Normalized, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
