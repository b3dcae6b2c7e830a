"""Models of dense layers: their products, and their linearization."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from consensus import _checks, kernels
from consensus.kernels import blas as _blas
from consensus.models.activations import Activation
from consensus.models.layout import NamedArray
from consensus.models.linearization import LinearizationDefaults, Linearized


class LayeredProducts(LinearizationDefaults):
    """Products with the Jacobian J of a layered model at fixed parameters and features."""

    several = True  # vjp and jvp take several (co)tangents of an agent at once

    def __init__(
        self,
        model: Layered,
        w: np.ndarray,
        weights: Sequence[np.ndarray],
        inputs: Sequence[np.ndarray],
        kept: Sequence[np.ndarray],
    ) -> None:
        self._model, self._w, self._weights, self._inputs, self._kept = model, w, weights, inputs, kept
        self._samples = inputs[-1].shape[1]
        self._slopes: dict[int, np.ndarray] = {}

    def _slope(self, layer: int) -> np.ndarray:
        """Return the derivative of the activation of ``layer``, computed once."""
        if layer not in self._slopes and self._model._activation is not None:
            self._slopes[layer] = self._model._activation.derivative(self._kept[layer])
        return self._slopes[layer]

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return J' u (agents, P) for u (agents, samples, outputs), written to ``out`` if given.

        For several cotangents u (agents, count, samples, outputs) its shape is (agents, count, P).
        """
        u = _checks.floats("u", u)
        wanted = (len(self._w), self._samples, self._model.outputs)
        if u.ndim not in (3, 4) or (len(u), *u.shape[-2:]) != wanted:
            raise ValueError(f"u must have shape {wanted} for {self._model}; got {u.shape}")
        several = u.ndim == 4
        if out is None:
            out = np.empty((*u.shape[:-2], self._model.parameters), u.dtype)
        targets = self._model._split(out)
        for layer, d in self._cotangents(u, several):
            (weights, bias), inputs = targets[layer], self._inputs[layer]
            np.matmul((inputs[:, None] if several else inputs).swapaxes(-1, -2), d, out=weights)
            if bias is not None:
                np.matmul(ones(d.shape[-2], d.dtype), d, out=bias)
        return out

    def _cotangents(self, u: np.ndarray, several: bool) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each layer and the cotangents of its a = h W + b, from those of the outputs, u; backwards.

        With ``several`` the second axis of u is that of an agent's cotangents.
        """
        last = len(self._weights) - 1
        for layer in range(last, -1, -1):
            through = None
            if layer < last:
                through, u = self._model._joined_adjoint(layer, u)
                u = self._backward(u, layer, several)
            yield layer, u
            if layer > 0:
                weights = self._weights[layer].swapaxes(-1, -2)
                weights = weights[:, None] if several else weights
                u = kernels.outer(u[..., 0], weights[..., 0, :]) if u.shape[-1] == 1 else u @ weights
                u = self._model._rows_adjoint(layer, u)
                if through is not None:
                    u += through

    def _backward(self, u: np.ndarray, layer: int, several: bool) -> np.ndarray:
        """Multiply u by the slope of ``layer`` in place; slopes not needed elsewhere are not stored."""
        activation = self._model._activation
        if activation is not None and activation.backward is not None and layer not in self._slopes:
            kept = self._kept[layer]
            return activation.backward(u, kept[:, None] if several else kept, out=u)
        slope = self._slope(layer)
        u *= slope[:, None] if several else slope
        return u

    def jvp(self, v: np.ndarray) -> np.ndarray:
        """Return J v (agents, samples, outputs) for v (agents, P).

        For several tangents v (agents, count, P) its shape is (agents, count, samples, outputs).
        """
        v = _checks.floats("v", v)
        if v.ndim not in (2, 3) or (len(v), v.shape[-1]) != self._w.shape:
            raise ValueError(f"v must have the shape of w, {self._w.shape}, for {self._model}; got {v.shape}")
        several = v.ndim == 3
        tangent: np.ndarray | None = None  # of the layer's inputs; the features themselves do not move
        for layer, (weights, bias) in enumerate(self._model._split(v)):
            inputs, own = self._inputs[layer], self._weights[layer]
            moved = (inputs[:, None] if several else inputs) @ weights
            if tangent is not None:
                moved += self._model._rows(layer, tangent) @ (own[:, None] if several else own)
            if bias is not None:
                moved += bias
            if layer < len(self._kept):
                slope = self._slope(layer)
                moved *= slope[:, None] if several else slope
                moved = self._model._joined(layer, tangent, moved)
            tangent = moved
        return np.asarray(tangent)


@functools.lru_cache(maxsize=16)
def ones(count: int, dtype: np.dtype) -> np.ndarray:
    """Return a row of ones, which adds up so many rows."""
    return np.ones((1, count), dtype)


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


class Layered(Linearized):
    """A model made of layers.

    Subclasses set ``widths``, ``bias`` and ``activation``: an ``Activation``, or None of a single layer. Several have biases.
    Weights have the shapes ``matrices``, by default those between one width and the next.
    """

    features: Any  #: number of features of a sample, or its shape
    _linearization: Callable[..., LinearizationDefaults] = LayeredLinearization

    def __init__(
        self,
        widths: Sequence[int],
        bias: bool,
        activation: Activation | None,
        matrices: Iterable[tuple[int, int]] | None = None,
    ) -> None:
        self.widths, self.bias, self._activation = tuple(widths), bias, activation
        self._spans, start = [], 0
        for inputs, outputs in itertools.pairwise(widths) if matrices is None else matrices:
            weights = start + inputs * outputs
            end = weights + (outputs if bias else 0)
            self._spans.append((start, weights, end, inputs, outputs))
            start = end
        self.parameters = start  #: P
        self.features, self.outputs = self.widths[0], self.widths[-1]

    @property
    def matrices(self) -> tuple[tuple[int, int, int], ...]:
        """Places of the layers' weights in the parameter vector: (start, m, k), m k numbers from start on, row by row."""
        return tuple((start, m, k) for start, _, _, m, k in self._spans)

    @property
    def layout(self) -> tuple[NamedArray, ...]:
        """Names, places and shapes of the layers' weights and biases."""
        found = []
        for layer, (start, weights, end, m, k) in enumerate(self._spans):
            found.append(NamedArray(f"{layer}.weight", start, (m, k), -1))
            found += [NamedArray(f"{layer}.bias", weights, (k,), -1)] if end > weights else []
        return tuple(found)

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random start: weights normal with variance gain * 2 / (inputs + outputs), biases zero.

        The gain is 2 for relu and 1 otherwise.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray (P,)
            Parameters.
        """
        _checks.offers("rng", rng, ("normal",), "a NumPy generator, such as numpy.random.default_rng(0)")
        try:
            w, gain = np.zeros(self.parameters), 1.0 if self._activation is None else self._activation.gain
        except (MemoryError, ValueError) as error:  # ValueError: more than there are addresses
            raise MemoryError(
                f"{self} has {self.parameters} parameters, {8 * self.parameters / 1e9:.3g} GB for each agent, for which there "
                "is no memory: take narrower or fewer layers"
            ) from error
        for weights, _ in self._split(w):
            weights[...] = rng.normal(scale=np.sqrt(gain * 2 / sum(weights.shape)), size=weights.shape)
        return w

    def _split(self, w: np.ndarray) -> list[tuple[np.ndarray, Any]]:
        """Return views of every layer's weights (..., m, k) and biases (..., 1, k) or None, for w (..., P)."""
        parts, of = [], w.shape[:-1]
        for start, weights, end, m, k in self._spans:
            bias = w[..., weights:end].reshape(*of, 1, k) if self.bias else None
            parts.append((w[..., start:weights].reshape(*of, m, k), bias))
        return parts

    def _passed(self, w: np.ndarray, x: np.ndarray, note: Callable[[tuple[Any, ...]], None] | None = None) -> np.ndarray:
        """Return the outputs; ``note`` gets each layer's weights, rows and the argument of its activation's derivative."""
        last, h = len(self._spans) - 1, x
        for layer, (weights, bias) in enumerate(self._split(w)):
            inputs, keep = h, None
            rows = self._rows(layer, inputs)
            h = rows @ weights
            if layer < last and self._activation is not None:
                h, keep = self._activation.apply(h, bias)
                h = self._joined(layer, inputs, h)
            elif bias is not None:
                h += bias
            if note is not None:
                note((weights, rows, keep))
        return h

    # Linear maps around a layer's weights and activation, and their adjoints; arrays (..., samples, ...) of any leading axes.

    def _rows(self, layer: int, h: np.ndarray) -> np.ndarray:
        """Return the rows that the weights of ``layer`` multiply, from its inputs h."""
        return h

    def _rows_adjoint(self, layer: int, u: np.ndarray) -> np.ndarray:
        """Return the cotangents of the inputs from those of the rows, which may be overwritten."""
        return u

    def _joined(self, layer: int, inputs: np.ndarray | None, h: np.ndarray) -> np.ndarray:
        """Return the outputs of ``layer`` from its inputs and its activation h, which stays as it is; None are zeros."""
        return h

    def _joined_adjoint(self, layer: int, u: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the cotangents of inputs, None if they are zero, and of the activation, new or u, from those of outputs."""
        return None, u

    def _predicted(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self._passed(*self._check(w, x))

    def linearize(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, LinearizationDefaults]:
        w, x = self._check(w, x)
        layers: list[tuple[Any, ...]] = []
        outputs = self._passed(w, x, layers.append)
        weights, inputs, kept = zip(*layers, strict=True)
        return outputs, self._linearization(self, w, weights, inputs, kept[:-1])

    def _check(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``w`` and ``x`` as arrays of floats; raise ``TypeError`` or ``ValueError`` if they do not fit the model."""
        w, x = _checks.floats("w", w), self._numbers(x)
        if w.ndim != 2 or w.shape[1] != self.parameters:
            raise ValueError(f"w must have shape (agents, {self.parameters}) for {self}; got {w.shape}")
        shape = self.features if isinstance(self.features, tuple) else (self.features,)
        if x.ndim < 3 or x.shape[2:] != shape or x.shape[0] not in (1, len(w)):
            wanted = ", ".join(map(str, shape))
            raise ValueError(f"x must have shape ({len(w)}, samples, {wanted}) for {self}; got {x.shape}")
        return w, x
