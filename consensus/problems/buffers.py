"""Batch normalisation in problems: the running means and variances by which a point is evaluated."""

from __future__ import annotations

import copy
import math
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.models import Model
from consensus.models.torch_buffers import averaged
from consensus.problems.cache import Cache
from consensus.problems.draws import has_buffers
from consensus.problems.sums import SampleSums


class BufferedSums(SampleSums):
    """Sums over samples of models that may have batch normalisation."""

    def buffers(self, w: ArrayLike) -> np.ndarray:
        """Return the running means and variances of the model's batch normalisation, computed at w from all samples.

        An agent's are those that its layers meet in one pass of all its samples, dropout left out. The variances are divided by
        the number of values, so that an agent's samples are normalised as in its gradients of all samples.

        Parameters
        ----------
        w : array_like (agents, P) or (P,)
            A point for each agent, or one for all.

        Returns
        -------
        ndarray (agents, B) or (B,)
            Of points (agents, P) each agent's own. Of one point (P,) the means and variances over the agents held here,
            weighted by their numbers of samples: each variance with the spread of the agents' means.

        Raises
        ------
        TypeError
            If the model has no batch normalisation in training mode.
        ValueError
            If there is one point, and the model is to ``keep`` the buffers of each agent apart.

        Examples
        --------
        >>> import numpy as np, consensus
        >>> from torch import nn
        >>> shards = consensus.partition(np.arange(12.0).reshape(6, 2), np.zeros(6), agents=2)
        >>> model = consensus.models.Torch(nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)))
        >>> problem = consensus.Problem(model, consensus.SquaredLoss(), shards)
        >>> problem.buffers(np.zeros(7)).round(3)
        array([ 5.   ,  6.   , 11.667, 11.667])
        """
        self._check_buffers()
        w = _checks.array("w", w)
        if w.ndim != 1:
            return self._statistics(self._stack(w))
        if cast(Any, self.model).buffers == "keep":
            raise ValueError(
                f"w must have shape {(self.agents, self.parameters)}, as each agent keeps its own buffers; got {w.shape}: take "
                "np.tile(w, (problem.agents, 1)), or Torch(module, buffers='average')"
            )
        return averaged(self._statistics(self._everywhere(w)), self.shards.sizes)

    def evaluated(self, buffers: np.ndarray) -> Self:
        """Return the problem with its model in evaluation mode, with these buffers in batch normalisation.

        Parameters
        ----------
        buffers : ndarray (B,)
            The buffers, as :meth:`buffers` returns them for one point.

        Returns
        -------
        Problem
            The problem, whose costs are sums over samples that do not depend on each other.

        Raises
        ------
        TypeError
            If the model has no batch normalisation in training mode.
        ValueError
            If the buffers have another shape.
        """
        self._check_buffers()
        problem = copy.copy(self)
        problem.model, problem.cache = cast(Any, self.model).evaluated(buffers), Cache()
        problem._prepare_sums(math.prod(self.shards.features.shape[2:]))
        return problem

    def objective(self, point: ArrayLike) -> float:
        if getattr(self.model, "buffers", None) != "average":
            return super().objective(point)
        return self.evaluated(self.buffers(point)).objective(point)

    def _check_buffers(self) -> None:
        if not has_buffers(self.model):
            raise TypeError(f"{self} has no buffers: its model has no batch normalisation in training mode")

    def _statistics(self, w: np.ndarray) -> np.ndarray:
        """Return the buffers (agents, B) of each agent's samples at its own point."""
        found = np.empty((self.agents, cast(Any, self.model).buffer_size), self.dtype)

        def noted(x: np.ndarray, d: np.ndarray, c: np.ndarray, w: np.ndarray, out: np.ndarray, model: Model) -> None:
            out[0] = cast(Any, model).statistics(w, x)

        self._over_all(noted, (w, found))
        return found
