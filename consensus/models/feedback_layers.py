"""Feedback of the outputs' errors to the layers of a multilayer perceptron, by slices of one fixed random matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consensus import _checks
from consensus.models.mlp import MLP


def feedback_matrix(seed: int, outputs: int, widths: Sequence[int]) -> np.ndarray:
    """Return R (outputs, widest), normal with variance 1 / outputs; a layer's matrix is :func:`feedback_scale` R[:, :width]."""
    normal = np.random.default_rng(seed).standard_normal((outputs, max(widths)))
    return np.asarray(normal / np.sqrt(outputs))


def feedback_scale(width: int) -> float:
    """Return the factor that makes the expected length of a layer's feedback independent of its width."""
    return float(1 / np.sqrt(width))


class FeedbackLayers:
    """Forward passes of a multilayer perceptron whose layers get the outputs' errors by direct feedback."""

    def __init__(self, model: MLP, seed: int) -> None:
        self._model, self._matrix = model, feedback_matrix(seed, model.outputs, model.widths[1:-1])

    def linearize(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, FeedbackPass]:
        """Return the outputs, and the directions that errors of theirs give."""
        w, x = self._model._check(w, x)
        outputs, _, inputs, kept = self._model._forward(w, x)
        return outputs, FeedbackPass(self._model, self._matrix.astype(w.dtype), (len(w), *outputs.shape[1:]), inputs, kept)


class FeedbackPass:
    """A forward pass: its layers' inputs, and what the derivatives of their activations are computed from."""

    def __init__(
        self, model: MLP, matrix: np.ndarray, shape: tuple[int, ...], inputs: list[np.ndarray], kept: list[np.ndarray]
    ) -> None:
        self._model, self._matrix, self._shape, self._inputs, self._kept = model, matrix, shape, inputs, kept

    def vjp(self, u: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the directions (agents, P) for errors u (agents, samples, outputs), written to ``out`` if given."""
        u = _checks.floats("u", u)
        if u.shape != self._shape:
            raise ValueError(f"u must have shape {self._shape} for {self._model}; got {u.shape}")
        out = np.empty((len(u), self._model.parameters), u.dtype) if out is None else out
        ones, shared = np.ones((1, u.shape[1]), u.dtype), u @ self._matrix
        for layer, (weights, bias) in enumerate(self._model._split(out)):
            d = u if layer == len(self._kept) else self._error(shared[..., : weights.shape[-1]], layer)
            np.matmul(self._inputs[layer].swapaxes(1, 2), d, out=weights)
            np.matmul(ones, d, out=bias)
        return out

    def _error(self, shared: np.ndarray, layer: int) -> np.ndarray:
        """Return the error of a hidden layer, a new array: its slice of what all layers share, times its derivative."""
        d = shared * shared.dtype.type(feedback_scale(shared.shape[-1]))
        activation, kept = self._model._activation, self._kept[layer]
        assert activation is not None, "perceptrons have one"
        if activation.backward is not None:
            return np.asarray(activation.backward(d, kept, out=d))
        d *= activation.derivative(kept)
        return np.asarray(d)
