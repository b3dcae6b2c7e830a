"""Models whose products are those of their linearization."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from consensus import _checks
from consensus.models.linearization import Linearization
from consensus.models.passes import fitting, parts


class FullLinearization(Linearization, Protocol):
    """A linearization with the Jacobian and J J'."""

    def jacobian(self, columns: np.ndarray | None = None) -> np.ndarray:
        """Return J (agents, samples * outputs, P), or the ``columns`` in a sorted array of integers."""

    def gram(self) -> np.ndarray:
        """Return J J' (agents, samples * outputs, samples * outputs)."""


class Linearized:
    """The base of models with one forward pass, ``linearize(w, x)``, for every product with the Jacobian J.

    Subclasses define ``linearize`` and ``_predicted(w, x)``, the outputs alone, both for blocks of agents.
    """

    def linearize(self, w: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, FullLinearization]:
        """Return ``(f(w, x), linearization)``: one forward pass for all products with the Jacobian at w.

        For w (agents, P) and x (agents, samples, ...); the second is a :class:`consensus.models.Linearization`.
        """
        raise NotImplementedError

    def _predicted(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the outputs f(w, x) (agents, samples, outputs).

        Without the axis of agents for one point w (P,) and its x (samples, ...).
        """
        w, x = _checks.floats("w", w), self._numbers(x)
        if w.ndim == 1:
            return np.asarray(self.predict(w[None], x[None])[0])
        few = self.samples_at_once(w.dtype) if x.ndim > 2 else 0
        if not few or x.shape[1] <= few:
            return self._predicted(w, x)
        outputs: np.ndarray = np.concatenate([self._predicted(w, x[:, some]) for some in parts(x.shape[1], few)], axis=1)
        return outputs

    def samples_at_once(self, dtype: DTypeLike) -> int:
        """Return how many samples of an agent one pass takes at most; more are worked in several, in bounded memory."""
        numbers = 2 * sum(getattr(self, "widths", (0, 1))[1:])
        return fitting(numbers, dtype, getattr(self, "device", "cpu"))

    def _numbers(self, x: ArrayLike) -> np.ndarray:
        """Return ``x`` as an array of features."""
        return _checks.floats("x", x)

    def vjp(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return J' u (agents, P), for u (agents, samples, outputs)."""
        return self.linearize(w, x)[1].vjp(u)

    def jvp(self, w: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return J v (agents, samples, outputs), for v (agents, P)."""
        return self.linearize(w, x)[1].jvp(v)

    def jacobian(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the Jacobian J (agents, samples * outputs, P), with the outputs of a sample in neighbouring rows."""
        return self.linearize(w, x)[1].jacobian()

    def gram(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return J J' (agents, samples * outputs, samples * outputs), the products of the rows of J."""
        return self.linearize(w, x)[1].gram()
