"""Constraints as regularizers: boxes, balls, nonnegative coordinates."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.regularizers.base import Regularizer
from consensus.regularizers.norms import Separable
from consensus.regularizers.points import check_slices, like, points, spread, to_prox

if TYPE_CHECKING:
    import cvxpy


class Indicator(Regularizer):
    """The indicator of a convex set; CVXPY gets the set as :meth:`constraints`."""

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        return cp.Constant(0)


def indicator(inside: np.ndarray | np.bool, w: np.ndarray) -> np.ndarray | float:
    """Return zero where ``inside`` and infinity elsewhere, in the dtype of ``w``."""
    return np.where(inside, 0, np.inf).astype(w.dtype)[()]


@dataclass(frozen=True, repr=False)
class Box(Indicator, Separable):
    """The indicator of ``lower <= w <= upper``: r is zero inside and infinite outside, and its prox clips.

    Parameters
    ----------
    lower, upper : float or array (P,)
        Bounds in units of w, infinite for no bound; arrays are kept as tuples. Coordinates with lower = upper are fixed.

    Raises
    ------
    ValueError
        If a bound is not a number, or lower > upper somewhere. In methods, if points do not have the length of the bounds.

    Notes
    -----
    A point counts as inside up to 8 units in the last place of a bound, in its own dtype: the mean of agents on a bound may
    round past it. What :meth:`prox` returns is inside without any tolerance.

    References
    ----------
    Beck, "First-order methods in optimization", SIAM, 2017, lemma 6.26.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import Box
    >>> Box(-1.0, [2.0, np.inf]).prox(np.array([[3.0, 3.0], [-3.0, 0.5]]), step=1.0)
    array([[ 2. ,  3. ],
           [-1. ,  0.5]])
    """

    lower: float | Sequence[float] | np.ndarray
    upper: float | Sequence[float] | np.ndarray
    _lower: np.ndarray = field(init=False, compare=False)
    _upper: np.ndarray = field(init=False, compare=False)

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)
        bounds = [_bound(name, getattr(self, name)) for name in ("lower", "upper")]
        if len({bound.shape for bound in bounds} - {()}) > 1:
            raise ValueError(f"lower and upper of Box must have the same length; got {bounds[0].size} and {bounds[1].size}")
        lower, upper = np.broadcast_arrays(*map(np.atleast_1d, bounds))
        bad = (lower > upper) | (lower == np.inf) | (upper == -np.inf)
        if bad.any():
            first = int(bad.argmax())
            raise ValueError(
                f"lower of Box must be <= upper, with a number in between; got {lower[first]} and {upper[first]} "
                f"at coordinate {first}"
            )
        for name, bound in zip(("lower", "upper"), bounds):
            put(name, tuple(bound.tolist()) if bound.ndim else bound.item())
            put(f"_{name}", bound)

    def __repr__(self) -> str:
        lower, upper = (np.array2string(bound, threshold=6, separator=", ") for bound in (self._lower, self._upper))
        return f"Box({lower}, {upper})"

    def value(self, w: ArrayLike) -> np.ndarray | float:
        w = points("w", w)
        lower, upper = self._bounds(w)
        slack = 8 * np.finfo(w.dtype).eps
        below, above = lower - slack * np.abs(lower), upper + slack * np.abs(upper)
        return indicator(((below <= w) & (w <= above)).all(axis=-1), w)

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        lower, upper = self._bounds(v)
        return cast(np.ndarray, np.clip(v, lower, upper))

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        lower, upper = self._bounds(v)
        return ((lower < v) & (v < upper)).astype(v.dtype)

    def split(self, slices: Sequence[slice]) -> Sequence[Regularizer]:
        check_slices(slices)
        bounds = (self._lower, self._upper)
        size = max(bound.size if bound.ndim else 0 for bound in bounds)
        if size not in (0, slices[-1].stop):
            raise ValueError(f"slices must cover the {size} coordinates of {self}; got {slices}")
        return [Box(*(bound[part] if bound.ndim else bound for bound in bounds)) for part in slices]

    def constraints(self, w: cvxpy.Variable) -> list[cvxpy.Constraint]:
        lower, upper = (np.broadcast_to(bound, w.shape) for bound in self._bounds(w))
        low, high = (np.flatnonzero(np.isfinite(bound)) for bound in (lower, upper))
        constraints = [w[low] >= lower[low]] if low.size else []
        return constraints + ([w[high] <= upper[high]] if high.size else [])

    def _bounds(self, w: np.ndarray | cvxpy.Variable) -> list[np.ndarray]:
        """Return both bounds, in the dtype of ``w`` if that is an array."""
        for bound in (self._lower, self._upper):
            if bound.ndim and w.shape[-1:] != bound.shape:
                raise ValueError(f"points of {self} must have {bound.size} coordinates; got shape {w.shape}")
        return [like(bound, w) if isinstance(w, np.ndarray) else bound for bound in (self._lower, self._upper)]


def _bound(name: str, value: ArrayLike) -> np.ndarray:
    wanted = "a number or an array (P,) of numbers, infinite or finite"
    if not hasattr(value, "__len__") and not isinstance(value, bool | np.bool_):
        return np.asarray(_checks.real(f"{name} of Box", value, wanted, lambda number: not np.isnan(number)))
    bound = _checks.dense(f"{name} of Box", value)
    if bound.dtype.kind not in "iuf" or bound.ndim > 1 or bound.size == 0 or np.isnan(bound).any():
        raise ValueError(f"{name} of Box must be {wanted}, got {_checks.shown(value)}")
    return bound.astype(float)


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
        return cast(np.ndarray, v * (self.radius / np.maximum(_norms(v), self.radius)))

    def prox_jvp(self, v: np.ndarray, step: float | np.ndarray, d: np.ndarray) -> np.ndarray:
        # d inside; (radius / |v|) (d - u u'd) with u = v / |v| outside.
        norms = _norms(v)
        longer = np.maximum(norms, self.radius)
        units = spread(np.where(norms > self.radius, v / longer, 0), d)
        return cast(np.ndarray, spread(self.radius / longer, d) * (d - units * (units * d).sum(axis=-1, keepdims=True)))

    def active(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        # All, except the only nonzero coordinate of a point outside, which is fixed.
        nonzero = v != 0
        return cast(np.ndarray, (_norms(v) <= self.radius) | (nonzero.sum(axis=-1, keepdims=True) - nonzero > 0))

    def constraints(self, w: cvxpy.Variable) -> list[cvxpy.Constraint]:
        import cvxpy as cp

        return [cp.norm2(w) <= self.radius]


def _norms(w: np.ndarray) -> np.ndarray:
    """Return the norm of each row, shape (agents, 1), or (1,) for one point."""
    return cast(np.ndarray, np.sqrt(np.square(w).sum(axis=-1, keepdims=True)))


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
        return cast(np.ndarray, np.maximum(v, 0))

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        return (v > 0).astype(v.dtype)

    def constraints(self, w: cvxpy.Variable) -> list[cvxpy.Constraint]:
        return [w >= 0]
