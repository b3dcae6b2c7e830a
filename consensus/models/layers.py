"""Layers of affine maps and activations on stacked parameters: the arithmetic behind Linear, MLP and ResNet.

A layer l takes inputs h (samples, m) to a = h W + b, with W (m, k) stored row by row and then b (k,) in the parameter
vector, and to its activation. Everything is a batched matrix product over agents; NumPy hands each agent's to BLAS.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from consensus import _checks
from consensus.models.activations import Activation
from consensus.models.layers_linearized import LayeredLinearization
from consensus.models.layout import NamedArray
from consensus.models.linearized import FullLinearization, Linearized


class Layered(Linearized):
    """A model made of layers.

    Subclasses set ``widths``, ``bias`` and ``activation``: an ``Activation``, or None of a single layer. Several have biases.
    Weights have the shapes ``matrices``, by default those between one width and the next.
    """

    features: Any  #: number of features of a sample, or its shape
    _linearization: Callable[..., FullLinearization] = LayeredLinearization

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

    def _random_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return weights (P,) normal with variance gain * 2 / (inputs + outputs), biases zero."""
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

    def _passed(self, w: np.ndarray, x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield each layer's weights, rows and outputs, and the argument of its activation's derivative (None: the last)."""
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
            yield weights, rows, h, keep

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
        outputs = x
        for _, _, outputs, _ in self._passed(*self._check(w, x)):  # noqa: B007 (states are freed on the way)
            pass
        return outputs

    def linearize(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, FullLinearization]:
        w, x = self._check(w, x)
        weights, inputs, outputs, kept = zip(*self._passed(w, x), strict=True)
        return outputs[-1], self._linearization(self, w, weights, inputs, kept[:-1])

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
