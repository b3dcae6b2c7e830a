"""Regularizers that are sums over coordinates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from consensus.regularizers.base import Regularizer, check_slices
from consensus.regularizers.points import spread


class Separable(Regularizer):
    """A sum of one function of each coordinate; the generalised Jacobian of its prox is diagonal."""

    @abstractmethod
    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        """Return the diagonal of the generalised Jacobian of ``prox(., step)`` at v.

        Parameters
        ----------
        v : ndarray (agents, P), or (P,)
            The points.
        step : float, or ndarray (agents, 1)
            The step, above 0.

        Returns
        -------
        ndarray, the shape of v
            The diagonal.
        """

    def prox_jvp(self, v: np.ndarray, step: float | np.ndarray, d: np.ndarray) -> np.ndarray:
        return np.asarray(spread(self.prox_slope(v, step), d) * d)

    def active(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        return np.asarray(self.prox_slope(v, step) != 0)

    def split(self, slices: Sequence[slice]) -> Sequence[Regularizer]:
        check_slices(slices)
        return [self] * len(slices)
