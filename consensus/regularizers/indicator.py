"""Constraints as regularizers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from consensus.regularizers.base import Regularizer
from consensus.regularizers.points import like

if TYPE_CHECKING:
    import cvxpy


class Indicator(Regularizer):
    """The indicator of a convex set; CVXPY gets the set as :meth:`constraints`."""

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        return cp.Constant(0)


def indicator(inside: np.ndarray | np.bool, w: np.ndarray) -> np.ndarray | float:
    """Return zero where ``inside`` and infinity elsewhere, in the dtype of ``w``."""
    value: np.ndarray | float = like(np.where(inside, 0, np.inf), w)[()]
    return value
