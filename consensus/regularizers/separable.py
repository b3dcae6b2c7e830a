"""Regularizers that are sums over coordinates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from consensus.regularizers.base import Regularizer
from consensus.regularizers.points import check_slices, spread


class Separable(Regularizer):
    """A sum of one function of each coordinate; the generalised Jacobian of its prox is diagonal.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> class Ceiling(consensus.regularizers.Separable):
    ...     def value(self, w):
    ...         return np.where((w <= 1).all(axis=-1), 0, np.inf).astype(w.dtype)
    ...     def prox(self, v, step):
    ...         return np.minimum(v, 1)
    ...     def prox_slope(self, v, step):
    ...         return np.where(v < 1, 1.0, 0.0)
    >>> v, d = np.array([[0.5, 3.0]]), np.array([[2.0, 2.0]])
    >>> Ceiling().prox(v, 1.0).tolist(), Ceiling().prox_jvp(v, 1.0, d).tolist(), Ceiling().active(v, 1.0).tolist()
    ([[0.5, 1.0]], [[2.0, 0.0]], [[True, False]])
    """

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
