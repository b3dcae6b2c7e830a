"""Products with the Jacobian of a model made of layers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from consensus import _blas, kernels
from consensus.models.layers_products import LayeredProducts


class LayeredLinearization(LayeredProducts):
    """Products with the Jacobian J of a model of affine layers, and the Jacobian itself.

    The row of J for sample m and output o holds, for a layer with inputs h and sensitivities d = df_o/da, the outer product of
    h_m and d_m (and d_m itself for the bias).
    """

    def _sensitivities(self) -> Iterator[np.ndarray]:
        """Yield df/da (agents, samples, outputs, k) of every layer but the last, where it is the identity; backwards."""
        d: np.ndarray | None = None
        for layer in reversed(range(len(self._kept))):
            weights = self._weights[layer + 1].swapaxes(1, 2)  # (agents, k', k) with k' the wider layer's outputs
            slope = self._slope(layer)[:, :, None, :]
            if d is None:
                d = weights[:, None] * slope
            else:
                agents, samples, outputs, width = d.shape
                d = (d.reshape(agents, -1, width) @ weights).reshape(agents, samples, outputs, -1) * slope
            yield d

    def _all_sensitivities(self) -> Iterator[np.ndarray | None]:
        return itertools.chain([None], self._sensitivities())  # None is the identity

    def jacobian(self, columns: np.ndarray | None = None) -> np.ndarray:
        """Return J (agents, samples * outputs, P), or only its ``columns``, given by a sorted integer array."""
        agents, samples = len(self._w), self._samples
        outputs, bias = self._model.outputs, self._model.bias
        width = self._model.parameters if columns is None else len(columns)
        jacobian = np.empty((agents, samples, outputs, width), self._w.dtype)
        layers = zip(reversed(self._model._spans), reversed(self._inputs), self._all_sensitivities(), strict=True)
        for (start, weights, end, m, k), h, d in layers:
            if d is None:
                d = np.eye(outputs, dtype=self._w.dtype)[None, None]
            if columns is None:
                block = jacobian[..., start:weights].reshape(agents, samples, outputs, m, k)
                np.multiply(h[:, :, None, :, None], d[..., None, :], out=block)
                if bias:
                    jacobian[..., weights:end] = d
            else:
                first, middle, last = np.searchsorted(columns, (start, weights, end))
                row, column = np.divmod(columns[first:middle] - start, k)
                np.multiply(h[:, :, None, row], d[..., column], out=jacobian[..., first:middle])
                jacobian[..., middle:last] = d[..., columns[middle:last] - weights]
        return jacobian.reshape(agents, samples * outputs, width)

    def diagonal(self, weights: np.ndarray) -> np.ndarray:
        """Return the diagonal of J' diag(weights) J, shape (agents, P), for weights (agents, samples, outputs)."""
        diagonal = np.zeros((len(self._w), self._model.parameters), self._w.dtype)
        parts = reversed(self._model._split(diagonal))
        for (part, bias), h, d in zip(parts, reversed(self._inputs), self._all_sensitivities(), strict=True):
            spread = weights if d is None else (weights[..., None] * np.square(d)).sum(axis=2)  # (agents, samples, k)
            np.matmul(np.square(h).swapaxes(1, 2), spread, out=part)
            if bias is not None:
                np.sum(spread, axis=1, keepdims=True, out=bias)
        return diagonal

    def gram(self) -> np.ndarray:
        """Return J J' (agents, samples * outputs, samples * outputs), the sum over layers of (D D') o (H H' + 1)."""
        gram = self.upper_gram()
        for rows, _ in _blas.blocks(gram.shape[1]):
            corner, below = np.triu(gram[:, rows, rows]), slice(rows.stop, None)
            gram[:, rows, rows] = corner + np.triu(corner, 1).swapaxes(1, 2)
            gram[:, below, rows] = gram[:, rows, below].swapaxes(1, 2)
        return gram

    def upper_gram(self, scale: np.ndarray | None = None) -> np.ndarray:
        """Return the upper triangles of diag(scale) J J' diag(scale), with ``scale`` (agents, samples, outputs) or one."""
        agents, samples, outputs = len(self._w), self._samples, self._model.outputs
        few = -(-_blas.BLOCK // outputs)  # samples at a time
        # One output's matrices are worked on and above the diagonal alone, but others may ask for theirs block by block.
        step = few * outputs if outputs > 1 or scale is None else None
        last, *earlier = reversed(self._inputs)
        total: np.ndarray | None = None
        scale = np.ones((agents, samples, outputs), last.dtype) if scale is None else scale

        def products(h: np.ndarray) -> np.ndarray:
            return _blas.squares(self._with_ones(h).astype(scale.dtype, copy=False), step=step and few)

        def worked(matrices: np.ndarray, h: np.ndarray) -> Iterator[tuple[tuple[slice, slice], np.ndarray, np.ndarray]]:
            # A few samples at a time, which stay in cache: those of all outputs, and products of inputs.
            inner = products(h)
            pairs = zip(_blas.blocks(samples * outputs, few * outputs), _blas.blocks(samples, few), strict=True)
            for place, small in pairs:
                yield place, matrices[:, *place], inner[:, *small]

        def by_outputs(block: np.ndarray) -> np.ndarray:  # apart from samples
            return block.reshape(agents, -1, outputs, block.shape[2] // outputs, outputs)

        for h, d in zip(earlier, self._sensitivities(), strict=True):
            scaled = kernels.scaled_rows(scale.reshape(agents, -1), d.reshape(agents, samples * outputs, -1))
            part = _blas.squares(scaled, step=step)
            if outputs == 1:
                kernels.upper_multiplied(products(h), out=part)
                total = part if total is None else kernels.upper_added(part, out=total)
                continue
            for place, block, inner in worked(part, h):
                by_outputs(block)[...] *= inner[:, :, None, :, None]
                if total is not None:
                    sums = total[:, *place]
                    sums += block
            total = part if total is None else total
        if total is None:
            total = np.zeros((agents, samples * outputs, samples * outputs), scale.dtype)
        if outputs == 1:
            return _blas.squares(self._with_ones(last, scale[:, :, 0]), out=total)
        first = 0
        for _, block, inner in worked(total, last):  # D D' is one where outputs agree, else zero
            rows, columns = scale[:, first : first + inner.shape[1], None], scale[:, None, first:]
            np.einsum("amono->amno", by_outputs(block))[...] += inner[..., None] * rows * columns
            first += inner.shape[1]
        return total

    def _with_ones(self, h: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
        """Return the inputs h of a layer with a one for its bias, times the ``scale`` of each sample."""
        if not self._model.bias:
            return h if scale is None else kernels.scaled_rows(scale, h)
        agents = len(h) if scale is None else len(scale)  # one set of features may serve all
        rows = np.empty((agents, h.shape[1], h.shape[2] + 1), h.dtype)
        if scale is None:
            rows[:, :, :-1], rows[:, :, -1] = h, 1
        else:
            kernels.scaled_rows(scale, h, out=rows[:, :, :-1])
            rows[:, :, -1] = scale
        return rows
