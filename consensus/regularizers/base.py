"""What every regularizer offers."""

from abc import ABC, abstractmethod

import numpy as np


class Regularizer(ABC):
    """A convex function r(w), worked row-wise: ``w`` is one point (P,) or a stack (agents, P).

    Attributes
    ----------
    smooth : bool
        Whether r is differentiable; :meth:`gradient` exists exactly then.
    strong_convexity : float
        The m for which r - m/2 |w|^2 is still convex.
    """

    smooth = False
    strong_convexity = 0.0

    @abstractmethod
    def value(self, w):
        """r of every row: shape (agents,), or a float for one point."""

    @abstractmethod
    def prox(self, v, step):
        """``argmin_w r(w) + |w - v|^2 / (2 step)``, row-wise; ``step`` > 0 is a float or an array that fits (agents, 1)."""

    @abstractmethod
    def expression(self, w):
        """r as a CVXPY expression of the variable ``w`` (P,)."""

    def gradient(self, w):
        """grad r, the shape of ``w``. Raises ``TypeError`` where r is not smooth."""
        raise TypeError(f"{self} is not smooth and has no gradient")


def soft_threshold(v, width):
    """``sign(v) max(|v| - width, 0)``: exact zeros inside the width."""
    return v - np.clip(v, -width, width)
