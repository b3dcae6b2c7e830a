"""The nonnegative orthant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from consensus.regularizers.indicator import Indicator, indicator
from consensus.regularizers.points import points, to_prox
from consensus.regularizers.separable import Separable

if TYPE_CHECKING:
    import cvxpy


@dataclass(frozen=True)
class NonNegative(Indicator, Separable):
    """The indicator of ``w >= 0``: r is zero there and infinite elsewhere, and its prox is ``max(v, 0)``.

    References
    ----------
    Beck, "First-order methods in optimization", SIAM, 2017, lemma 6.26.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import NonNegative
    >>> NonNegative().prox(np.array([3.0, -0.2]), step=1.0)
    array([3., 0.])
    >>> NonNegative().value(np.array([[3.0, 0.0], [3.0, -0.2]]))
    array([ 0., inf])
    """

    def value(self, w: ArrayLike) -> np.ndarray | float:
        w = points("w", w)
        return indicator((w >= 0).all(axis=-1), w)

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        return np.asarray(np.maximum(v, 0))

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        return (v > 0).astype(v.dtype)

    def constraints(self, w: cvxpy.Variable) -> list[cvxpy.Constraint]:
        return [w >= 0]
