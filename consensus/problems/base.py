"""The base class of problems: the agents' costs, and a regularizer."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import TYPE_CHECKING, Self, cast

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from consensus import _checks
from consensus.problems.average import AverageForm
from consensus.problems.batch import Batch
from consensus.problems.cache import Cache
from consensus.problems.shared import SharedProblem
from consensus.problems.work import Work
from consensus.regularizers import L2, DifferenceOfConvex, Regularizer

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Real


class BaseProblem(AverageForm):
    """``minimise U(w) = sum_i g_i(w) + r(w)`` over w in R^P, where agent i alone knows the smooth cost g_i.

    A problem holds a *block* of agents: all of them, or the rows that one process owns (:meth:`restrict`).

    Parameters
    ----------
    rows : ndarray of int (agents,)
        The numbers of the agents held here.
    network_size : int
        A, the number of agents of the whole network.
    parameters : int
        P.
    dtype : numpy.dtype
        The dtype of iterates and gradients.
    regularizer : Regularizer or None
        The regularizer r, ``L2(0)`` if None.

    Attributes
    ----------
    agents : int
        Number of agents held here.
    regularizer : Regularizer
        r, or the convex part of a nonconvex one.
    nonconvex : DifferenceOfConvex or None
        The regularizer as given, if it is not convex: ``r_given = r - h`` with a smooth h, of which every g_i has -h / A.
    work : Work
        Counts what was computed with this object; a restricted block starts its own count.
    cache : Cache
        Results computed once from the data, such as a linear model's factors.
    """

    def __init__(
        self,
        rows: Int[np.ndarray, " agents"],
        network_size: int,
        parameters: int,
        dtype: DTypeLike,
        regularizer: Regularizer | None,
    ) -> None:
        self.rows, self.agents, self.network_size = rows, len(rows), network_size
        self.parameters, self.dtype, self.work = parameters, np.dtype(dtype), Work()
        self.cache = Cache()
        regularizer = L2(0.0) if regularizer is None else _checks.regularizer(regularizer)
        # A nonconvex r is a convex one minus a smooth one; the second joins the costs, shared out among the agents.
        self.nonconvex: DifferenceOfConvex | None = None
        if not getattr(regularizer, "is_convex", True):
            _checks.needs("a regularizer with is_convex = False", regularizer, "convex", "smooth_value", "smooth_gradient")
            self.nonconvex = cast(DifferenceOfConvex, regularizer)  # it has the attributes of one
            regularizer = _checks.regularizer(self.nonconvex.convex, "its convex part")
        self.regularizer = regularizer

    @abstractmethod
    def _value(self, w: Float[np.ndarray, "agents P"]) -> Float[np.ndarray, " agents"]:
        """Return the costs without a nonconvex regularizer's share."""

    @abstractmethod
    def _gradient(self, w: Float[np.ndarray, "agents P"]) -> Float[np.ndarray, "agents P"]:
        """Return their gradients, a new array."""

    def _batch_gradient(self, w: np.ndarray, batch: Batch) -> np.ndarray:
        """Return the estimate of :meth:`_gradient` from the samples of a ``batch``."""
        raise TypeError(f"{self} has no samples of which a batch could be taken: leave batch out")

    def value(self, w: ArrayLike) -> Float[np.ndarray, " agents"]:
        """Return the costs g_i(w_i).

        Parameters
        ----------
        w : array_like (agents, P)
            The points w_i.

        Returns
        -------
        ndarray (agents,)
            The costs.
        """
        w = self._stack(w)
        value = self._value(w)
        if self.nonconvex is not None:
            value -= self.nonconvex.smooth_value(w) / self.network_size
        return value

    def gradient(self, w: ArrayLike, batch: Batch | None = None) -> Float[np.ndarray, "agents P"]:
        """Return the gradients grad g_i(w_i).

        Parameters
        ----------
        w : array_like (agents, P)
            The points w_i.
        batch : Batch, optional
            Samples from which the gradient is estimated, as :meth:`consensus.Minibatches.at` draws them; the work is
            proportional to their number. A nonconvex regularizer's share is exact.

        Returns
        -------
        ndarray (agents, P)
            The gradients, a new array.

        Raises
        ------
        TypeError
            If there is a ``batch``, but no samples.
        """
        w = self._stack(w)
        gradient = self._gradient(w) if batch is None else self._batch_gradient(w, batch)
        self.work.gradients += 1
        return self._add_share(gradient, w)

    def restrict(self, rows: slice | ArrayLike) -> Self:
        """Return the same problem for some of its agents.

        Parameters
        ----------
        rows : slice or array_like of int
            The agents, as positions in this block; data of a slice are views.

        Returns
        -------
        BaseProblem
            The block, of the same class.
        """
        block = copy.copy(self)
        rows = _checks.rows(rows, self.agents)
        block.rows = self.rows[rows]
        block.agents, block.work, block.cache = len(block.rows), Work(), Cache()
        return block

    def shared(self) -> SharedProblem:
        """Return the problem in a form that is sent to worker processes.

        Returns
        -------
        SharedProblem
            The pickled problem, and its data in shared memory.
        """
        return SharedProblem(cloudpickle.dumps(self.restrict(slice(None))))

    @property
    def load(self) -> Real[np.ndarray, " agents"]:
        """The relative cost of each agent's gradient: workers get about equal sums."""
        return np.ones(self.agents)

    @abstractmethod
    def digests(self) -> list[str]:
        """Return a digest of each agent's data, equal for equal costs; checkpoints store them.

        Returns
        -------
        list of str
            One for each agent.
        """

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

        Parameters
        ----------
        point : array_like (P,)
            The point.

        Returns
        -------
        ndarray (P,)
            The gradient.
        """
        return np.asarray(self.gradient(self._everywhere(_checks.floats("point", point))).sum(axis=0))

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

    def _stack(self, w: ArrayLike) -> np.ndarray:
        if type(w) is not np.ndarray or w.dtype != self.dtype:
            w = _checks.array("w", w).astype(self.dtype, copy=False)
        if w.shape != (self.agents, self.parameters):
            raise ValueError(f"w must have shape (agents, P) = {(self.agents, self.parameters)}; got {w.shape}")
        return w
