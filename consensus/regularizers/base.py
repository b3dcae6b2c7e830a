"""What every regularizer offers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks

if TYPE_CHECKING:
    import cvxpy

_FLOATS = (float, np.floating)


class Regularizer(ABC):
    """A function r(w), worked row-wise: ``w`` is one point (P,) or a stack (agents, P). All results keep its dtype.

    A constraint is a regularizer too: the indicator of a set, zero on it and infinite elsewhere.

    A regularizer of one's own needs :meth:`value` and :meth:`prox`. With these alone AdaptiveNEXT, NEXT and SONATA take it:
    with full linearization a round takes one prox; AdaptiveNEXT and partial linearization solve their local problems by
    accelerated proximal gradient. What the other methods are for, all of which have defaults:

    ``gradient``, with ``smooth = True``
        DGD, GradientTracking and all others that say that they need a smooth regularizer.
    ``prox_jvp``
        Newton's method in local solves, which is faster. Where r is a sum of one function of each coordinate,
        :class:`consensus.regularizers.Separable` makes it of a slope, and ``split``, too.
    ``active``
        Smaller systems in these.
    ``split``
        :class:`consensus.surrogates.Blocks`.
    ``expression``, ``constraints``
        :class:`consensus.local.CVXPYSolver`.

    They are called with stacks of agents, by several threads at the same time: results are new arrays, arguments are left as
    they are. A ``prox`` lies where ``value`` is finite. The attributes are the settings: a run is resumed with a
    regularizer that has the same ones. ``value``, ``prox`` and ``gradient`` of those of the package are for users, too: they
    take lists, and raise ``TypeError`` or ``ValueError`` for what is no array of numbers of that shape; :func:`points` and
    :func:`to_prox` do that. Local solvers call with arrays of floats alone.

    Attributes
    ----------
    is_convex : bool
        Whether r is convex; where it is not, it is a :class:`DifferenceOfConvex`.
    smooth : bool
        Whether r is differentiable; :meth:`gradient` exists exactly then.
    quadratic : bool
        Whether r is ``strong_convexity / 2 |w|^2``, so that local problems become linear systems.
    squares : ndarray (P,) or None
        The weights s where r is ``sum_k s_k/2 w_k^2``, another that is not ``quadratic``; None of all others.
    strong_convexity : float
        An m for which r - m/2 |w|^2 is still convex; below zero where r itself is not convex.
    curvature_bound : float or None
        Where r is smooth, a Lipschitz constant of its gradient, by which steps are chosen; None where none is known.
    """

    is_convex: bool = True
    smooth: bool = False
    quadratic: bool = False
    squares: np.ndarray | None = None
    if TYPE_CHECKING:  # to be read only: some have it as a property

        @property
        def strong_convexity(self) -> float: ...
        @property
        def curvature_bound(self) -> float | None: ...

    else:
        strong_convexity = 0.0
        curvature_bound = None

    @abstractmethod
    def value(self, w: np.ndarray) -> np.ndarray | float:
        """r of every row: shape (agents,), or a float for one point."""

    @abstractmethod
    def prox(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        """``argmin_w r(w) + |w - v|^2 / (2 step)``, row-wise; ``step`` > 0 is a float or an array that fits (agents, 1)."""

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        """r as a CVXPY expression of the variable ``w`` (P,), apart from its :meth:`constraints`.

        Raises
        ------
        TypeError
            Where r states none.
        """
        raise TypeError(f"{self} has no CVXPY expression: define one, or use consensus.local.Exact()")

    def constraints(self, w: cvxpy.Variable) -> list[cvxpy.Constraint]:
        """The list of CVXPY constraints on ``w`` (P,) that are part of r; empty where r is finite everywhere."""
        return []

    def gradient(self, w: np.ndarray) -> np.ndarray:
        """grad r, the shape of ``w``. Raises ``TypeError`` where r is not smooth."""
        raise TypeError(f"{self} is not smooth and has no gradient")

    def prox_jvp(self, v: np.ndarray, step: float | np.ndarray, d: np.ndarray) -> np.ndarray:
        """``M d`` with M an element of Clarke's generalised Jacobian of ``prox(., step)`` at v.

        M is the Jacobian wherever there is one. It is symmetric positive semidefinite; its eigenvalues are at most
        ``1 / (1 + step m)`` with m the strong convexity, and exceed one only where r is not convex.

        Parameters
        ----------
        v : ndarray (agents, P), or (P,)
        step : float or ndarray (agents, 1)
            > 0.
        d : ndarray, the shape of v, or (agents, rows, P): many directions at once, (rows, P) for one point

        Returns
        -------
        ndarray, the shape of d

        Raises
        ------
        TypeError
            Where r offers no such Jacobian.

        References
        ----------
        Clarke, "Optimization and nonsmooth analysis", 1983, definition 2.6.1.
        """
        raise TypeError(f"{self} has no prox_jvp, the generalised Jacobian of its prox: define one for second-order solvers")

    def active(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        """False (agents, P) on the coordinates whose row and column of the M of :meth:`prox_jvp` are zero.

        A linear system in M can drop those. Where nothing better is known, all are active.
        """
        return np.ones(v.shape, bool)

    def split(self, slices: Sequence[slice]) -> Sequence[Regularizer]:
        """The regularizers r_c of slices of the coordinates, for which ``r(w) = sum_c r_c(w[slice_c])``.

        Parameters
        ----------
        slices : list of slice
            They cover 0..P in order, each from where the one before it ends; none is empty.

        Returns
        -------
        list of Regularizer

        Raises
        ------
        ValueError
            If the slices do not cover 0..P so, or r does not separate over them.
        """
        check_slices(slices)
        if len(slices) > 1:
            raise ValueError(f"{self} does not separate over {slices}: pass one slice that holds all coordinates")
        return [self]


class Separable(Regularizer):
    """A sum of one function of each coordinate; the generalised Jacobian of its prox is diagonal."""

    @abstractmethod
    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        """That diagonal, the shape of ``v``."""

    def prox_jvp(self, v: np.ndarray, step: float | np.ndarray, d: np.ndarray) -> np.ndarray:
        return spread(self.prox_slope(v, step), d) * d

    def active(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        return self.prox_slope(v, step) != 0

    def split(self, slices: Sequence[slice]) -> Sequence[Regularizer]:
        check_slices(slices)
        return [self] * len(slices)


def points(name: str, value: ArrayLike) -> np.ndarray:
    """``value`` as an array of floats (P,) or (agents, P); raise ``TypeError`` or ``ValueError`` if it is none."""
    if type(value) is not np.ndarray or value.dtype.kind != "f":  # as floats asks, without the call
        value = _checks.floats(name, value)
    if not 0 < value.ndim < 3:
        raise ValueError(f"{name} must have shape (P,) or (agents, P); got {value.shape}")
    return value


def to_prox(v: ArrayLike, step: float | np.ndarray) -> tuple[np.ndarray, float | np.ndarray]:
    """``v`` as points and ``step`` as a number > 0 or an array (agents, 1) for them; raise as :func:`points` otherwise.

    What an array of steps holds is not looked at: local solvers come by here in their inner loops.
    """
    if type(step) is float and 0 < step < math.inf:  # at once, as it mostly is
        return points("v", v), step
    v = points("v", v)
    if type(step) is np.ndarray:
        if step.ndim == v.ndim == 2 and step.shape == (len(v), 1) and step.dtype.kind == "f":
            return v, step
    elif isinstance(step, _FLOATS) and 0 < step < math.inf:
        return v, step
    if not hasattr(step, "__len__"):
        return v, _checks.number("step", step, above=0)
    step = _checks.floats("step", step)
    if not ((step.shape == (len(v), 1) and v.ndim == 2) or (step.size == 1 and step.ndim <= v.ndim)):
        wanted = f"(agents, 1) = {(len(v), 1)}" if v.ndim == 2 else "(1,)"
        raise ValueError(f"step must be a number or an array {wanted}; got shape {step.shape}")
    return v, step


def soft_threshold(v: np.ndarray, width: float | np.ndarray) -> np.ndarray:
    """``sign(v) max(|v| - width, 0)``: exact zeros inside the width."""
    width = like(width, v)
    return v - np.clip(v, -width, width)


def like(number: ArrayLike, v: np.ndarray) -> np.ndarray:
    """``number``, a scalar or an array, in the dtype of the points ``v``, so that float32 points stay float32."""
    return np.asarray(number, v.dtype if v.dtype.kind == "f" else None)


def spread(x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """``x``, with an entry or a row an agent, with an axis for the directions of ``d`` if there are many an agent."""
    return x if x.ndim == d.ndim else x[..., None, :]


def indicator(inside: np.ndarray | np.bool, w: np.ndarray) -> np.ndarray | float:
    """Zero where ``inside``, infinite elsewhere, in the dtype of ``w``."""
    return like(np.where(inside, 0, np.inf), w)[()]


def check_slices(slices: Sequence[slice]) -> None:
    """Raise ``ValueError`` unless ``slices`` cover 0..P in order, each from where the one before it ends, none empty."""
    end, good = 0, len(slices) > 0
    for part in slices:
        good = good and isinstance(part, slice) and part.step in (None, 1) and (part.start or 0) == end
        good = good and part.stop is not None and part.stop > end
        end = part.stop if good else end
    if not good:
        raise ValueError(f"slices must cover 0..P in order, none empty, as [slice(0, 4), slice(4, 10)] does; got {slices!r}")
