"""Feedback of the outputs' errors to the layers of a multilayer perceptron, by slices of one fixed random matrix."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from consensus.models.layers import LayeredProducts
from consensus.models.mlp import MLP


def feedback_matrix(seed: int, outputs: int, widths: Sequence[int]) -> np.ndarray:
    """Return R (outputs, widest), normal with variance 1 / outputs; a layer's matrix is :func:`feedback_scale` R[:, :width]."""
    normal = np.random.default_rng(seed).standard_normal((outputs, max(widths)))
    return np.asarray(normal / np.sqrt(outputs))


def feedback_scale(width: int) -> float:
    """Return the factor that makes the expected length of a layer's feedback independent of its width."""
    return float(1 / np.sqrt(width))


def with_feedback(model: MLP, seed: int) -> MLP:
    """Return a perceptron whose hidden layers do not get errors from the next layer, but from the outputs."""
    fed: Any = copy.copy(model)
    fed._linearization = functools.partial(FeedbackPass, feedback_matrix(seed, model.outputs, model.widths[1:-1]))
    return fed  # type: ignore[no-any-return]


class FeedbackPass(LayeredProducts):
    """A forward pass, whose ``vjp`` has the directions that errors of the outputs give."""

    def __init__(self, matrix: np.ndarray, *passed: Any) -> None:  # noqa: ANN401  # as of any linearization
        super().__init__(*passed)
        self._matrix = matrix

    def _cotangents(self, u: np.ndarray, several: bool) -> Iterator[tuple[int, np.ndarray]]:
        hidden, shared = len(self._kept), u @ self._matrix.astype(u.dtype, copy=False)
        yield hidden, u
        for layer in range(hidden):
            width = self._weights[layer].shape[-1]
            d = shared[..., :width] * shared.dtype.type(feedback_scale(width))
            yield layer, self._backward(d, layer, several)
