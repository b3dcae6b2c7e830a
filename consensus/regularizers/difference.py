"""The base class of nonconvex regularizers."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from consensus.regularizers.base import Regularizer
from consensus.regularizers.separable import Separable

if TYPE_CHECKING:
    import cvxpy


class DifferenceOfConvex(Separable):
    """A nonconvex r = convex - smooth: a convex regularizer less a convex function with a Lipschitz gradient.

    Linearising the smooth function at a point gives a convex r~ that lies above r and touches it there. The Lipschitz constant
    of ``smooth_gradient`` is ``-strong_convexity``.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> r, w = consensus.LogSum(1.0, epsilon=0.5), np.array([3.0, -0.2])
    >>> r.is_convex, r.convex
    (False, L1(weight=2.0))
    >>> bool(np.isclose(r.value(w), r.convex.value(w) - r.smooth_value(w)))
    True
    """

    is_convex = False

    @property
    @abstractmethod
    def convex(self) -> Regularizer:
        """The convex part, a regularizer."""

    @abstractmethod
    def smooth_value(self, w: np.ndarray) -> np.ndarray | float:
        """Return the smooth part of each row.

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
    def smooth_gradient(self, w: np.ndarray) -> np.ndarray:
        """Return the gradient of the smooth part at each row.

        Parameters
        ----------
        w : ndarray (agents, P), or (P,)
            The points.

        Returns
        -------
        ndarray, the shape of w
            The gradients.
        """

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:  # CVXPY has convex functions only
        raise TypeError(f"{self} is not convex and has no CVXPY expression; its convex part, .convex = {self.convex}, has one")
