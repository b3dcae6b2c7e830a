"""Models whose products are those of their linearization."""

from typing import Any

import numpy as np

from consensus import _checks


class Linearized:
    """What such models have in common: one forward pass, by ``linearize(w, x)``, serves every product with the Jacobian J.

    Subclasses have ``linearize`` and ``_predicted(w, x)``, the outputs alone, both for blocks of agents.
    """

    linearize: Any
    _predicted: Any

    def predict(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """f(w, x).

        Parameters
        ----------
        w : ndarray (agents, P), or (P,)
        x : ndarray (agents, samples, ...), or (samples, ...)

        Returns
        -------
        ndarray (agents, samples, outputs), or (samples, outputs) for one point
        """
        w, x = _checks.floats("w", w), self._numbers(x)
        return self._predicted(w[None], x[None])[0] if w.ndim == 1 else self._predicted(w, x)

    def _numbers(self, x):
        """``x`` as an array of features."""
        return _checks.floats("x", x)

    def vjp(self, w: np.ndarray, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """J' u for cotangents u (agents, samples, outputs); shape (agents, P)."""
        return self.linearize(w, x)[1].vjp(u)

    def jvp(self, w: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """J v for tangents v (agents, P); shape (agents, samples, outputs)."""
        return self.linearize(w, x)[1].jvp(v)

    def jacobian(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """J, shape (agents, samples * outputs, P); the outputs of one sample are neighbouring rows."""
        return self.linearize(w, x)[1].jacobian()

    def gram(self, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """J J', shape (agents, samples * outputs, samples * outputs)."""
        return self.linearize(w, x)[1].gram()
