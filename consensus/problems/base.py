"""The base class of problems: the agents' costs, and a regularizer."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from consensus import _checks
from consensus._arrays.rows import combined, rowwise
from consensus.data.shards import Shards
from consensus.problems.batch import Batch
from consensus.problems.state import Cache, SharedProblem, TestSet, Work
from consensus.regularizers import L2, DifferenceOfConvex, Regularizer
from consensus.regularizers.base import RegularizerDefaults

if TYPE_CHECKING:
    from jaxtyping import Float, Int, Real


class BaseProblem(ABC):
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
    regularizer : Regularizer, sequence of Regularizer, or None
        The regularizer r, ``L2(0)`` if None; of a list, ``sum_i r_i`` of the agents' own ones or sets.

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

    coupled = False  #: whether agents have variables of their own, coupled by constraints
    moves = False  #: whether costs differ from round to round, so that objectives of two rounds are not compared
    columns: tuple[str, ...] = ()  #: of the history, beside those of all runs
    labels: tuple[Hashable, ...] | None = None
    model: Any = None  #: these four are set by problems whose costs are sums over samples
    loss: Any = None
    shards: Any = None
    reduction: str | None = None
    linearize = sampled = measured = cast(Any, None)  # methods of Linearizable and Problem; what measures instead of AtMean
    _samples = 0  # of the agents held here, in a gradient of all of them
    _undigested = ("work",)  # runs change it

    def __init__(
        self,
        rows: Int[np.ndarray, " agents"],
        network_size: int,
        parameters: int,
        dtype: DTypeLike,
        regularizer: Regularizer | Sequence[Regularizer | None] | None,
    ) -> None:
        self.rows, self.agents, self.network_size = rows, len(rows), network_size
        self.parameters, self.dtype, self.work = parameters, np.dtype(dtype), Work()
        self.cache = Cache()
        if isinstance(regularizer, list | tuple) and regularizer:
            from consensus.unlike.regularizers import OwnRegularizers

            regularizer = OwnRegularizers(regularizer).for_network(network_size).restrict(rows.tolist())
        given = L2(0.0) if regularizer is None else _checks.regularizer(regularizer)
        r: Regularizer = _checks.completed(given, RegularizerDefaults)
        # A nonconvex r is a convex one minus a smooth one; the second joins the costs, shared out among the agents.
        self.nonconvex: DifferenceOfConvex | None = None
        if not r.is_convex:
            _checks.needs("a regularizer with is_convex = False", r, "convex", "smooth_value", "smooth_gradient")
            self.nonconvex = cast(DifferenceOfConvex, r)  # it has the attributes of one
            r = _checks.completed(_checks.regularizer(self.nonconvex.convex, "its convex part"), RegularizerDefaults)
        self.regularizer = r

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
        self.work.count(self._samples if batch is None else 0)
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
        self.work.count(self._samples)
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
        if self.regularizer.of_agents:  # each agent has its own
            block.regularizer = cast(Any, self.regularizer).restrict(block.rows.tolist())
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

    def batch_of(self, round: int) -> Batch | None:
        """Return what gradients of a round are taken of where a solver has no ``batch``.

        Parameters
        ----------
        round : int
            The round, from 0.

        Returns
        -------
        Batch or None
            None, for all samples, unless costs or their estimates differ by round.
        """
        return None

    def check_solver(self, solver: object) -> None:
        """Raise ``TypeError`` or ``ValueError`` if a solver, whose needs are met, cannot run on the problem for another reason.

        Parameters
        ----------
        solver : Solver
            The solver.
        """
        return None

    def true_gradients(self) -> Self:
        """Return the problem with true gradients, in case its model replaces them by other directions.

        Returns
        -------
        BaseProblem
            The problem; see :class:`consensus.models.DirectFeedback` for a model with other directions.
        """
        return self

    def test_set(self, test: Any) -> TestSet:  # noqa: ANN401  # arrays or frames of any library
        """Return a test set with what evaluates points on it, as the ``test`` of :func:`consensus.solve`.

        Parameters
        ----------
        test : tuple of array_like, or Shards
            Features and targets ``(X, y)``; of owners, shards of the same agents.

        Returns
        -------
        TestSet
            With ``errors(w)``, the mean errors of the rows of w; of owners with ``sums(w)``, those of each owner.

        Raises
        ------
        TypeError, ValueError
            If the test set does not fit the problem, or this has no model.
        """
        if isinstance(test, Shards):
            raise TypeError(f"test of owners needs a consensus.Problem, whose agents keep no buffers of their own; got {self}")
        raise TypeError(f"test needs a problem with a model, and features of one shape; got {self}: give metrics=")

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
        return np.asarray(self.true_gradients().gradient(self._everywhere(_checks.floats("point", point))).sum(axis=0))

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

    def average_gradient(self, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        """Return the gradients of the average form, grad f_i(w_i) with ``f_i = A g_i + r``.

        Parameters
        ----------
        w : ndarray (agents, P)
            The points w_i.
        batch : Batch, optional
            The samples from which grad g_i is estimated; r's gradient is exact.

        Returns
        -------
        ndarray (agents, P)
            The gradients.

        Raises
        ------
        TypeError
            If r is not smooth, or if there is a ``batch`` but no samples.
        """
        return self._averaged(self.gradient(w, batch), w)

    def descended(self, x: np.ndarray, alpha: float, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        """Return ``x - alpha average_gradient(w, batch)``, computed while the gradients are in cache.

        Parameters
        ----------
        x : ndarray (agents, P)
            Where the step begins.
        alpha : float
            The step size.
        w : ndarray (agents, P)
            The points of the gradients.
        batch : Batch, optional
            As in :meth:`average_gradient`.

        Returns
        -------
        ndarray (agents, P)
            The new points.
        """
        return combined(1, x, -float(alpha), self.average_gradient(w, batch))

    def average_form(self, data_gradient: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return the gradients of the average form at w for known gradients of the g_i; no work is counted.

        Parameters
        ----------
        data_gradient : ndarray (agents, P)
            The gradients of the g_i without a nonconvex regularizer's share; it may be overwritten.
        w : ndarray (agents, P)
            The points.

        Returns
        -------
        ndarray (agents, P)
            The gradients.
        """
        return self._averaged(self._add_share(data_gradient, w), w)

    def _add_share(self, gradient: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Add the gradient of a nonconvex regularizer's share to ``gradient``, in place."""
        if self.nonconvex is not None:
            gradient -= self.nonconvex.smooth_gradient(w) / self.network_size
        return gradient

    def _averaged(self, gradient: np.ndarray, w: np.ndarray) -> np.ndarray:
        size, r = self.network_size, self.regularizer
        if type(r) is L2 and type(r.weight) is float:  # the usual one, in one pass
            return combined(size, gradient, r.weight, w, over=gradient)
        return rowwise(lambda g, w: size * g + r.gradient(w), gradient, w, over=gradient)

    def lipschitz(self, w: ArrayLike | None = None) -> np.ndarray:
        """Return L_i, Lipschitz constants of the gradients of the average form ``f_i = A g_i + r``.

        L_i includes the curvature of a smooth r and of a nonconvex r's smooth part; a nonsmooth r is left out. An agent's
        constant depends on its own data only.

        - Models with a ``design`` matrix, as linear ones have, and a loss with a ``curvature_bound`` b:
          ``L_i = A b lmax(sum_m weights_m x_m x_m')``, a bound at every w; with the squared loss the least one.
        - Other models: the largest eigenvalue of the Gauss-Newton matrix ``A sum_m weights_m J_m' H_m J_m`` at ``w``, with H_m
          the loss's curvature: an estimate from below, by 50 steps of the power method.
        - Costs given by functions: ``A`` times the ``lipschitz`` given to :meth:`consensus.Problem.from_functions`.

        Parameters
        ----------
        w : array_like (agents, P), or (P,) for all agents, optional
            The point of the Gauss-Newton matrix; by default the model's initial point of seed 0.

        Returns
        -------
        ndarray (agents,)
            The constants.

        Raises
        ------
        TypeError
            If no constant is known of costs given by functions, or of a smooth r that is not quadratic.

        Examples
        --------
        >>> import numpy as np, consensus
        >>> shards = consensus.partition(np.diag([1.0, 2.0]), np.zeros(2), agents=2)
        >>> model = consensus.Linear(2, bias=False)
        >>> consensus.Problem(model, consensus.SquaredLoss(), shards, consensus.L2(0.5)).lipschitz()
        array([1.5, 4.5])
        """
        if w is not None:
            w = _checks.floats("w", w)
            w = self._stack(np.tile(w, (self.agents, 1)) if w.ndim == 1 else w)
        bound = self.network_size * self._lipschitz(w)
        if self.nonconvex is not None:  # f_i has -h, with 0 <= h'' <= -strong_convexity
            bound = np.maximum(bound, -self.nonconvex.strong_convexity)
        r = self.regularizer
        if not r.smooth:
            return bound
        own = r.strong_convexity if getattr(r, "quadratic", False) else r.curvature_bound
        if own is None:
            raise TypeError(f"{r} has no curvature_bound, a Lipschitz constant of its gradient: set it, or give step_size=")
        return bound + own

    def strong_convexity(self) -> np.ndarray:
        """Return mu_i, for which ``f_i - mu_i/2 |w|^2`` is convex, with f_i as in :meth:`lipschitz`.

        Returns
        -------
        ndarray (agents,)
            For a linear model and a quadratic loss the exact moduli, from the least eigenvalues of the agents' samples;
            otherwise that of a smooth r, zero if none is known, and below zero with a nonconvex r.

        Raises
        ------
        TypeError
            If the costs need not be convex: of a model that is not linear, or given by functions.
        """
        modulus = self.network_size * self._strong_convexity()
        if self.nonconvex is not None:
            modulus = modulus + self.nonconvex.strong_convexity
        return modulus + (self.regularizer.strong_convexity if self.regularizer.smooth else 0.0)

    def _slopes(self, directions: np.ndarray) -> np.ndarray:
        """Return ``grad g_i(0)' D`` (agents, count) for D (P, count), by which agents' costs are compared in a few numbers."""
        return np.asarray(self._gradient(self._stack(np.zeros((self.agents, self.parameters)))) @ directions)

    def _lipschitz(self, w: np.ndarray | None) -> np.ndarray:
        """Return Lipschitz constants of the grad g_i, without a nonconvex regularizer's share."""
        raise TypeError(f"{self} has no known Lipschitz constants of its gradients: give the solver a step_size=")

    def _strong_convexity(self) -> np.ndarray:
        """Return moduli of strong convexity of the g_i, without a nonconvex regularizer's share."""
        raise TypeError(f"{self} has no known modulus of strong convexity: give the solver a convexity=")
