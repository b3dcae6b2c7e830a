"""What every regularizer that is not convex offers."""

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from consensus.regularizers.base import Regularizer, Separable

if TYPE_CHECKING:
    import cvxpy


class DifferenceOfConvex(Separable):
    """A nonconvex r = convex - smooth: a convex regularizer less a convex function with a Lipschitz gradient.

    Linearising the latter at a point gives a convex r~ that lies above r and touches it there. The Lipschitz constant of
    ``smooth_gradient`` is ``-strong_convexity``.
    """

    is_convex = False

    @property
    @abstractmethod
    def convex(self) -> Regularizer:
        """The convex part, a regularizer."""

    @abstractmethod
    def smooth_value(self, w: np.ndarray) -> np.ndarray | float:
        """What is subtracted from it: shape (agents,), or a float for one point."""

    @abstractmethod
    def smooth_gradient(self, w: np.ndarray) -> np.ndarray:
        """The gradient of :meth:`smooth_value`, the shape of ``w``."""

    def expression(self, w: "cvxpy.Variable") -> "cvxpy.Expression":
        # CVXPY has convex functions only.
        raise TypeError(f"{self} is not convex and has no CVXPY expression; its convex part, .convex = {self.convex}, has one")
