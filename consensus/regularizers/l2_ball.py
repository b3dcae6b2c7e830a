"""A bound on the Euclidean norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.regularizers.indicator import Indicator, indicator
from consensus.regularizers.points import points, spread, to_prox

if TYPE_CHECKING:
    import cvxpy


@dataclass(frozen=True)
class L2Ball(Indicator):
    """The indicator of ``|w|_2 <= radius``: r is zero inside the ball and infinite outside.

    Its prox is the projection ``min(1, radius / |v|_2) v``.

    Parameters
    ----------
    radius : float
        Radius, above 0, in units of w.

    Notes
    -----
    A point counts as inside up to rounding: ``|w|_2 <= radius (1 + 1e-12)``, and 1 + 2e-6 in float32.

    References
    ----------
    Beck, "First-order methods in optimization", SIAM, 2017, lemma 6.26.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import L2Ball
    >>> L2Ball(1.0).prox(np.array([[3.0, 4.0], [0.1, 0.2]]), step=1.0)
    array([[0.6, 0.8],
           [0.1, 0.2]])
    """

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _checks.number("radius of L2Ball", self.radius, above=0))

    def value(self, w: ArrayLike) -> np.ndarray | float:
        w = points("w", w)
        norms = _norms(w)[..., 0]
        tolerance = max(1e-12, 16 * float(np.finfo(norms.dtype).eps))
        return indicator(norms <= self.radius * (1 + tolerance), w)

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        return np.asarray(v * (self.radius / np.maximum(_norms(v), self.radius)))

    def prox_jvp(self, v: np.ndarray, step: float | np.ndarray, d: np.ndarray) -> np.ndarray:
        # d inside; (radius / |v|) (d - u u'd) with u = v / |v| outside.
        norms = _norms(v)
        longer = np.maximum(norms, self.radius)
        units = spread(np.where(norms > self.radius, v / longer, 0), d)
        return np.asarray(spread(self.radius / longer, d) * (d - units * (units * d).sum(axis=-1, keepdims=True)))

    def active(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        # All, except the only nonzero coordinate of a point outside, which is fixed.
        nonzero = v != 0
        return np.asarray((_norms(v) <= self.radius) | (nonzero.sum(axis=-1, keepdims=True) - nonzero > 0))

    def constraints(self, w: cvxpy.Variable) -> list[cvxpy.Constraint]:
        import cvxpy as cp

        return [cp.norm2(w) <= self.radius]


def _norms(w: np.ndarray) -> np.ndarray:
    """Return the norm of each row, shape (agents, 1), or (1,) for one point."""
    return np.asarray(np.sqrt(np.square(w).sum(axis=-1, keepdims=True)))
