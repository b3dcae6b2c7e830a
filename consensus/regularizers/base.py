"""The base classes of regularizers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from consensus.regularizers.points import check_slices

if TYPE_CHECKING:
    import cvxpy
    from jaxtyping import Bool, Float

Points: TypeAlias = "Float[np.ndarray, '*agents P']"
Step: TypeAlias = "float | Float[np.ndarray, 'agents 1']"
Directions: TypeAlias = "Float[np.ndarray, '*agents_and_rows P']"


class RegularizerDefaults:
    """Attributes of every :class:`Regularizer` that one of another class need not have."""

    is_convex: bool = True
    smooth: bool = False
    of_agents: bool = False  # whether it is a list of the agents' own ones
    prox_slope: Any = None  # a method, the slope of a prox that works number by number
    if TYPE_CHECKING:  # read only: some have it as a property

        @property
        def curvature_bound(self) -> float | None: ...

    else:
        curvature_bound = None


class Regularizer(RegularizerDefaults, ABC):
    """A function r(w), applied to each row: ``w`` is one point (P,) or a stack (agents, P). All results keep its dtype.

    :func:`consensus.testing.check_regularizer` tries one of your own.

    A constraint is a regularizer too: the indicator of a set, zero on it and infinite elsewhere. A subclass defines
    :meth:`value` and :meth:`prox`, which are enough for AdaptiveNEXT, NEXT and SONATA: with full linearization a round takes
    one prox; otherwise local problems are solved by accelerated proximal gradient. The other methods have defaults:

    ``gradient``, with ``smooth = True``
        For DGD, GradientTracking and all others that require a smooth regularizer.
    ``prox_jvp``
        For Newton's method in local solves, which is faster. :class:`consensus.regularizers.Separable`, for sums of one
        function of each coordinate, derives it from a slope.
    ``active``
        For smaller linear systems in these.
    ``split``
        For :class:`consensus.surrogates.Blocks`.
    ``expression``, ``constraints``
        For :class:`consensus.local.CVXPYSolver`.

    Attributes
    ----------
    is_convex : bool
        Whether r is convex; if not, it is a :class:`DifferenceOfConvex`.
    smooth : bool
        Whether r is differentiable; :meth:`gradient` exists exactly then.
    quadratic : bool
        Whether r is ``strong_convexity / 2 |w|^2``, so that local problems become linear systems.
    squares : ndarray (P,) or None
        The weights s if r is ``sum_k s_k/2 w_k^2`` and not ``quadratic``; otherwise None.
    strong_convexity : float
        An m for which ``r - m/2 |w|^2`` is still convex; below zero if r is not convex.
    curvature_bound : float or None
        A Lipschitz constant of the gradient of a smooth r, by which steps are chosen; None if none is known.

    Notes
    -----
    - Methods are called with stacks of agents, by several threads at the same time. Results are new arrays, and arguments are
      not changed. A ``prox`` lies where ``value`` is finite.
    - The attributes are the settings: a run is resumed with a regularizer that has the same ones.
    - ``value``, ``prox`` and ``gradient`` of the package's regularizers also take lists, and reject everything else by
      `points` and `to_prox` of ``consensus.regularizers.points``. Local solvers pass arrays of floats only.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> class AtMostOne(consensus.regularizers.Regularizer):
    ...     def value(self, w):
    ...         return np.where((w <= 1).all(axis=-1), 0, np.inf).astype(w.dtype)
    ...     def prox(self, v, step):
    ...         return np.minimum(v, 1)
    >>> max(consensus.testing.check_regularizer(AtMostOne()).errors.values()) < 1e-6
    True
    """

    quadratic: bool = False
    squares: Float[np.ndarray, " P"] | None = None
    if TYPE_CHECKING:  # read only: some have it as a property

        @property
        def strong_convexity(self) -> float: ...

    else:
        strong_convexity = 0.0

    @abstractmethod
    def value(self, w: Points) -> Float[np.ndarray, "*agents"] | float:
        """Return r of each row.

        Parameters
        ----------
        w : ndarray (agents, P), or (P,)
            The points.

        Returns
        -------
        ndarray (agents,), or float for one point
            The values.
        """

    @abstractmethod
    def prox(self, v: Points, step: Step) -> Points:
        """Return ``argmin_w r(w) + |w - v|^2 / (2 step)`` for each row.

        Parameters
        ----------
        v : ndarray (agents, P), or (P,)
            The points.
        step : float, or ndarray (agents, 1)
            The step, above 0.

        Returns
        -------
        ndarray, the shape of v
            The minimisers.
        """

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        """Return r as a CVXPY expression, without its :meth:`constraints`.

        Parameters
        ----------
        w : cvxpy.Variable (P,)
            The variable.

        Returns
        -------
        cvxpy.Expression
            The expression.

        Raises
        ------
        TypeError
            If r has none.
        """
        raise TypeError(f"{self} has no CVXPY expression: define one, or use consensus.local.Exact()")

    def constraints(self, w: cvxpy.Variable) -> list[cvxpy.Constraint]:
        """Return the CVXPY constraints that are part of r.

        Parameters
        ----------
        w : cvxpy.Variable (P,)
            The variable.

        Returns
        -------
        list of cvxpy.Constraint
            The constraints; empty if r is finite everywhere.
        """
        return []

    def gradient(self, w: Points) -> Points:
        """Return the gradient of r at each row.

        Parameters
        ----------
        w : ndarray (agents, P), or (P,)
            The points.

        Returns
        -------
        ndarray, the shape of w
            The gradients.

        Raises
        ------
        TypeError
            If r is not smooth.
        """
        raise TypeError(f"{self} is not smooth and has no gradient")

    def prox_jvp(self, v: Points, step: Step, d: Directions) -> Directions:
        """Return ``M d`` with M an element of Clarke's generalised Jacobian of ``prox(., step)`` at v.

        M is the Jacobian wherever there is one. It is symmetric positive semidefinite; its eigenvalues are at most
        ``1 / (1 + step m)`` with m the strong convexity, and exceed one only if r is not convex.

        Parameters
        ----------
        v : ndarray (agents, P), or (P,)
            The points.
        step : float, or ndarray (agents, 1)
            The step, above 0.
        d : ndarray, the shape of v, or (agents, rows, P)
            One or many directions at each point; (rows, P) for one point.

        Returns
        -------
        ndarray, the shape of d
            The products.

        Raises
        ------
        TypeError
            If r offers no such Jacobian.

        References
        ----------
        Clarke, "Optimization and nonsmooth analysis", 1983, definition 2.6.1.
        """
        raise TypeError(f"{self} has no prox_jvp, the generalised Jacobian of its prox: define one for second-order solvers")

    def active(self, v: Float[np.ndarray, "agents P"], step: Step) -> Bool[np.ndarray, "agents P"]:
        """Return which coordinates a linear system in the M of :meth:`prox_jvp` must keep.

        Parameters
        ----------
        v : ndarray (agents, P)
            The points.
        step : float, or ndarray (agents, 1)
            The step, above 0.

        Returns
        -------
        ndarray of bool (agents, P)
            False on coordinates whose row and column of M are zero; by default all are True.
        """
        return np.ones(v.shape, bool, like=v)

    def split(self, slices: Sequence[slice]) -> Sequence[Regularizer]:
        """Return regularizers r_c of slices of the coordinates, for which ``r(w) = sum_c r_c(w[slice_c])``.

        Parameters
        ----------
        slices : list of slice
            They cover 0..P in order, each from where the one before it ends; none is empty.

        Returns
        -------
        list of Regularizer
            One for each slice.

        Raises
        ------
        ValueError
            If the slices do not cover 0..P so, or r does not separate over them.
        """
        check_slices(slices)
        if len(slices) > 1:
            raise ValueError(f"{self} does not separate over {slices}: pass one slice that holds all coordinates")
        return [self]
