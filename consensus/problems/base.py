"""The base class of problems: the agents' costs, and a regularizer."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Hashable
from typing import TYPE_CHECKING, Self, cast

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from consensus import _checks
from consensus.problems.batch import Batch
from consensus.problems.cache import Cache
from consensus.problems.one_point import AtOnePoint
from consensus.problems.shared import SharedProblem
from consensus.problems.work import Work
from consensus.regularizers import L2, DifferenceOfConvex, Regularizer

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Real


class BaseProblem(AtOnePoint):
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
    labels : tuple or None
        The names of all agents of the network, also in a block, or None.
    cache : Cache
        Results computed once from the data, such as a linear model's factors.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> class Distances(consensus.problems.BaseProblem):
    ...     def __init__(self, centres):
    ...         super().__init__(np.arange(len(centres)), len(centres), centres.shape[1], np.float64, consensus.L1(0.1))
    ...         self.centres = centres
    ...     def _value(self, w):
    ...         return ((w - self.centres[self.rows]) ** 2).sum(axis=1)
    ...     def _gradient(self, w):
    ...         return 2 * (w - self.centres[self.rows])
    ...     def digests(self):
    ...         return [str(centre) for centre in self.centres[self.rows].tolist()]
    >>> problem = Distances(np.array([[0.0], [1.0], [5.0]]))
    >>> problem.value([[1.0], [1.0], [1.0]]).tolist(), problem.restrict([2]).gradient([[1.0]]).tolist()
    ([1.0, 0.0, 16.0], [[-8.0]])
    """

    labels: tuple[Hashable, ...] | None = None

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

    one_pass = False  #: whether :meth:`value_and_gradient` costs no more than the gradient

    def _value_and_gradient(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`_value` and :meth:`_gradient`, new arrays."""
        return self._value(w), self._gradient(w)

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
        return self._with_share(self._value(w), w)

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

    def value_and_gradient(self, w: ArrayLike) -> tuple[Float[np.ndarray, " agents"], Float[np.ndarray, "agents P"]]:
        """Return the costs g_i(w_i) and their gradients, by one pass over the samples where the model allows it.

        Parameters
        ----------
        w : array_like (agents, P)
            The points w_i.

        Returns
        -------
        value : ndarray (agents,)
            The costs.
        gradient : ndarray (agents, P)
            The gradients.
        """
        w = self._stack(w)
        value, gradient = self._value_and_gradient(w)
        self.work.gradients += 1
        return self._with_share(value, w), self._add_share(gradient, w)

    def _with_share(self, value: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return costs with a nonconvex regularizer's share."""
        if self.nonconvex is not None:
            value -= self.nonconvex.smooth_value(w) / self.network_size
        return value

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

    def _stack(self, w: ArrayLike) -> np.ndarray:
        if type(w) is not np.ndarray or w.dtype != self.dtype:
            w = _checks.array("w", w).astype(self.dtype, copy=False)
        if w.shape != (self.agents, self.parameters):
            raise ValueError(f"w must have shape (agents, P) = {(self.agents, self.parameters)}; got {w.shape}")
        return w
