"""What every problem is: the agents' costs, and a regularizer."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Self, cast

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from consensus import _checks
from consensus._rows import combined, rowwise
from consensus.problems.batch import Batch
from consensus.problems.cache import Cache
from consensus.problems.shared import SharedProblem
from consensus.problems.work import Work
from consensus.regularizers import L2, DifferenceOfConvex, Regularizer


class BaseProblem(ABC):
    """``minimise U(w) = sum_i g_i(w) + r(w)`` over w in R^P, where agent i alone knows the smooth cost g_i.

    A problem holds a *block* of agents: all of them, or the rows that one process owns (:meth:`restrict`).

    Attributes
    ----------
    agents : int
        Number of agents held here.
    network_size : int
        A, the number of agents of the whole network; kept by :meth:`restrict`.
    parameters : int
        P.
    dtype : numpy.dtype
        Of iterates and gradients.
    rows : ndarray of int (agents,)
        Which agents of the network they are.
    regularizer : Regularizer
        r, the convex part of a nonconvex one; ``L2(0)`` where none was given.
    nonconvex : Regularizer or None
        The regularizer as given, where it is not convex: ``r_given = r - h`` with a smooth h, of which every g_i has -h / A.
    work : Work
        Counts what was computed with this object; a restricted block starts its own count.
    cache : Cache
        What is computed once from the data, such as a linear model's factors.
    """

    def __init__(
        self, rows: np.ndarray, network_size: int, parameters: int, dtype: DTypeLike, regularizer: Regularizer | None
    ) -> None:
        self.rows, self.agents, self.network_size = rows, len(rows), network_size
        self.parameters, self.dtype, self.work = parameters, np.dtype(dtype), Work()
        self.cache = Cache()
        regularizer = L2(0.0) if regularizer is None else _checks.regularizer(regularizer)
        # A nonconvex r is a convex one minus a smooth one; the second joins the costs, shared out among the agents.
        self.nonconvex: DifferenceOfConvex | None = None
        if not getattr(regularizer, "is_convex", True):
            _checks.needs("a regularizer with is_convex = False", regularizer, "convex", "smooth_value", "smooth_gradient")
            self.nonconvex = cast(DifferenceOfConvex, regularizer)  # it has what those have
            regularizer = _checks.regularizer(self.nonconvex.convex, "its convex part")
        self.regularizer = regularizer

    @abstractmethod
    def _value(self, w: np.ndarray) -> np.ndarray:
        """The costs without a nonconvex regularizer's share, shape (agents,)."""

    @abstractmethod
    def _gradient(self, w: np.ndarray) -> np.ndarray:
        """Their gradients, a new array (agents, P)."""

    def _batch_gradient(self, w: np.ndarray, batch: Batch) -> np.ndarray:
        """As :meth:`_gradient`, from the samples of a ``batch`` alone."""
        raise TypeError(f"{self} has no samples of which a batch could be taken: leave batch out")

    def value(self, w: ArrayLike) -> np.ndarray:
        """g_i(w_i) of every agent held here: shape (agents,) for w (agents, P)."""
        w = self._stack(w)
        value = self._value(w)
        if self.nonconvex is not None:
            value -= self.nonconvex.smooth_value(w) / self.network_size
        return value

    def gradient(self, w: ArrayLike, batch: Batch | None = None) -> np.ndarray:
        """grad g_i(w_i), shape (agents, P) for w (agents, P); a new array.

        Parameters
        ----------
        w : ndarray (agents, P)
        batch : Batch, optional
            An estimate from these samples alone, as :meth:`consensus.Minibatches.at` draws them; its work is in proportion to
            them. A nonconvex regularizer's share is that of the whole gradient.

        Raises
        ------
        TypeError
            If there is a ``batch``, but no samples.
        """
        w = self._stack(w)
        gradient = self._gradient(w) if batch is None else self._batch_gradient(w, batch)
        self.work.gradients += 1
        return self._with_share(gradient, w)

    def _with_share(self, gradient, w):
        """``gradient`` with a nonconvex regularizer's share; written over."""
        if self.nonconvex is not None:
            gradient -= self.nonconvex.smooth_gradient(w) / self.network_size
        return gradient

    def restrict(self, rows: slice | ArrayLike) -> Self:
        """The same problem for the agents ``rows`` of this one: a slice (the data are views), or an array of indices."""
        block = copy.copy(self)
        rows = _checks.rows(rows, self.agents)
        block.rows = self.rows[rows]
        block.agents, block.work, block.cache = len(block.rows), Work(), Cache()
        return block

    def shared(self) -> SharedProblem:
        """The problem in a form that is sent to worker processes."""
        return SharedProblem(cloudpickle.dumps(self.restrict(slice(None))))

    @property
    def load(self) -> np.ndarray:
        """What each agent's gradient costs, shape (agents,), up to a factor: workers get about equal sums."""
        return np.ones(self.agents)

    @abstractmethod
    def digests(self) -> list[str]:
        """A digest of each agent's data, strings: equal for equal costs. Checkpoints keep them."""

    def average_gradient(self, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        """grad f_i(w_i) of the average form ``U = (1/A) sum_i f_i``, ``f_i = A g_i + r``; shape (agents, P).

        With a ``batch`` grad g_i is the estimate of :meth:`gradient`; r's gradient is whole.

        Raises
        ------
        TypeError
            If r is not smooth; or if there is a ``batch``, but no samples.
        """
        return self._averaged(self.gradient(w, batch), w)

    def descended(self, x: np.ndarray, alpha: float, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        """``x - alpha average_gradient(w, batch)``, all (agents, P).

        What a step of descent is: where agents are worked chunk by chunk, their gradients need not leave the cache for it.
        """
        return combined(1, x, -float(alpha), self.average_gradient(w, batch))

    def average_form(self, data_gradient: np.ndarray, w: np.ndarray) -> np.ndarray:
        """As :meth:`average_gradient`, where the gradient of the samples' part of g_i is known already; written over.

        For methods that estimate it by other ways than from a batch alone. No work is counted.
        """
        return self._averaged(self._with_share(data_gradient, w), w)

    def _averaged(self, gradient, w):
        size, r = self.network_size, self.regularizer
        if type(r) is L2:  # the usual one, in one pass
            return combined(size, gradient, r.weight, w, over=gradient)
        smooth = r.gradient
        return rowwise(lambda g, w: size * g + smooth(w), gradient, w, over=gradient)

    def lipschitz(self, w: ArrayLike | None = None) -> np.ndarray:
        """L_i, Lipschitz constants of the gradients of the average form ``f_i = A g_i + r``, shape (agents,).

        A nonsmooth r is left out; a smooth one has its curvature in L_i, and a nonconvex one its concave part.

        - Linear models, and a loss with a ``curvature_bound`` b: ``L_i = A b lmax(sum_m weights_m x_m x_m')`` and r's, a bound
          at every w; with the squared loss the least one.
        - Other models: the largest eigenvalue of the Gauss-Newton matrix ``A sum_m weights_m J_m' H_m J_m`` at ``w``, with H_m
          the loss's curvature, and r's. It is found by 50 steps of the power method, from below: an estimate, and no bound.
        - Costs given by functions: ``A`` times the ``lipschitz`` given to :meth:`consensus.Problem.from_functions`, and r's.

        An agent's constant depends on its own data alone, not on who else is held here.

        Parameters
        ----------
        w : array_like (agents, P), or (P,) for all agents, optional
            Where the Gauss-Newton matrix is taken; by default at the model's initial point of seed 0.

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
        if not getattr(r, "smooth", False):
            return bound
        own = r.strong_convexity if getattr(r, "quadratic", False) else getattr(r, "curvature_bound", None)
        if own is None:
            raise TypeError(f"{r} says no curvature_bound, a Lipschitz constant of its gradient: set it, or give step_size=")
        return bound + own

    def strong_convexity(self) -> np.ndarray:
        """mu_i, for which ``f_i - mu_i/2 |w|^2`` is convex, with f_i as in :meth:`lipschitz`; shape (agents,).

        With a linear model and a quadratic loss it is exact, from the least eigenvalue of each agent's own samples; otherwise
        what a smooth r alone gives: zero, if nothing is known, and below zero with a nonconvex r.

        Raises
        ------
        TypeError
            If the costs are of a model that is not linear, or given by functions: they need not be convex.
        """
        modulus = self.network_size * self._strong_convexity()
        if self.nonconvex is not None:
            modulus = modulus + self.nonconvex.strong_convexity
        return modulus + (self.regularizer.strong_convexity if getattr(self.regularizer, "smooth", False) else 0.0)

    def _lipschitz(self, w: np.ndarray | None) -> np.ndarray:
        """As :meth:`lipschitz`, of the g_i without a nonconvex regularizer's share."""
        raise TypeError(f"{self} knows no Lipschitz constants of its gradients: give the solver a step_size=")

    def _strong_convexity(self) -> np.ndarray:
        """As :meth:`strong_convexity`, of the g_i without a nonconvex regularizer's share."""
        raise TypeError(f"{self} knows no modulus of strong convexity: give the solver a convexity=")

    def objective(self, point: ArrayLike) -> float:
        """U(point) = sum_i g_i(point) + r(point), a float, over the agents held here; ``point`` has shape (P,)."""
        point = _checks.floats("point", point)
        return float(self.value(self._everywhere(point)).sum() + self.regularizer.value(point))

    def total_gradient(self, point: ArrayLike) -> np.ndarray:
        """``grad G(point) = sum_i grad g_i(point)``, shape (P,), over the agents held here; ``point`` has shape (P,)."""
        return self.gradient(self._everywhere(_checks.floats("point", point))).sum(axis=0)

    def stationarity(self, point: ArrayLike) -> float:
        """``|w - prox_r(w - grad G(w))|`` at w = ``point`` (P,): zero exactly at stationary points of U."""
        point = _checks.floats("point", point)
        step = point - self.total_gradient(point)
        return float(np.linalg.norm(point - self.regularizer.prox(step, 1.0)))

    def _everywhere(self, point: np.ndarray) -> np.ndarray:
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
