"""A problem at one point of all agents."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.problems.average import AverageForm
from consensus.problems.exact import exact

if TYPE_CHECKING:
    from jaxtyping import Float


class AtOnePoint(AverageForm):
    """Objective, gradient and stationarity where all agents are at the same point, over the agents held here."""

    parameters: int
    dtype: np.dtype

    @abstractmethod
    def value(self, w: ArrayLike) -> np.ndarray:
        """Return g_i(w_i), as in :class:`BaseProblem`."""

    def objective(self, point: ArrayLike) -> float:
        """Return ``U(point) = sum_i g_i(point) + r(point)``, over the agents held here.

        Parameters
        ----------
        point : array_like (P,)
            The point.

        Returns
        -------
        float
            The objective.
        """
        point = _checks.floats("point", point)
        return float(self.value(self._everywhere(point)).sum() + self.regularizer.value(point))

    def total_gradient(self, point: ArrayLike) -> Float[np.ndarray, " P"]:
        """Return ``grad G(point) = sum_i grad g_i(point)``, over the agents held here.

        It is the costs' own gradient, also of a model with directions in its place, such as
        :class:`consensus.models.DirectFeedback`.

        Parameters
        ----------
        point : array_like (P,)
            The point.

        Returns
        -------
        ndarray (P,)
            The gradient.
        """
        return np.asarray(exact(self).gradient(self._everywhere(_checks.floats("point", point))).sum(axis=0))

    def stationarity(self, point: ArrayLike) -> float:
        """Return ``|w - prox_r(w - grad G(w))|`` at w = ``point``: zero exactly at stationary points of U.

        Parameters
        ----------
        point : array_like (P,)
            The point.

        Returns
        -------
        float
            The norm.
        """
        point = _checks.floats("point", point)
        step = point - self.total_gradient(point)
        return float(np.linalg.norm(point - self.regularizer.prox(step, 1.0)))

    def _everywhere(self, point: np.ndarray) -> np.ndarray:
        """Return ``point`` as the w_i of every agent."""
        point = point.astype(self.dtype, copy=False)
        if point.shape != (self.parameters,):
            raise ValueError(f"point must have shape ({self.parameters},); got {point.shape}")
        return np.broadcast_to(point, (self.agents, self.parameters))
