"""The problem that the agents solve together."""

import copy
import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus._parallel import for_chunks
from consensus.models import linearize
from consensus.regularizers import L2


@dataclass
class Work:
    """What an agent of a block has computed so far.

    Attributes
    ----------
    gradients : int
        Gradients of its own cost, per agent.
    solves : int
        Local problems solved, per agent.
    iterations : int
        Iterations inside the local solves, summed over the agents of the block (they differ); closed forms take none.
    unfinished : int
        Local solves that did not get as far as was asked, over the agents of the block.
    """

    gradients: int = 0
    solves: int = 0
    iterations: int = 0
    unfinished: int = 0


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
    memory : dict
        What local solvers keep from round to round because it does not change, such as a linear model's factors.
    """

    def __init__(self, rows, network_size, parameters, dtype, regularizer):
        self.rows, self.agents, self.network_size = rows, len(rows), network_size
        self.parameters = parameters
        self.dtype = np.dtype(dtype)
        self.work, self.memory = Work(), {}
        regularizer = L2(0.0) if regularizer is None else _checks.regularizer(regularizer)
        # A nonconvex r is a convex one minus a smooth one; the second joins the costs, shared out among the agents.
        self.nonconvex = None if getattr(regularizer, "is_convex", True) else regularizer
        if self.nonconvex is not None:
            _checks.needs("a regularizer with is_convex = False", regularizer, "convex", "smooth_value", "smooth_gradient")
        self.regularizer = regularizer if self.nonconvex is None else _checks.regularizer(regularizer.convex, "its convex part")

    @abstractmethod
    def _value(self, w):
        """The costs without a nonconvex regularizer's share, shape (agents,)."""

    @abstractmethod
    def _gradient(self, w):
        """Their gradients, a new array (agents, P)."""

    def value(self, w):
        """g_i(w_i) of every agent held here: shape (agents,) for w (agents, P)."""
        w = self._stack(w)
        value = self._value(w)
        if self.nonconvex is not None:
            value -= self.nonconvex.smooth_value(w) / self.network_size
        return value

    def gradient(self, w):
        """grad g_i(w_i), shape (agents, P) for w (agents, P); a new array."""
        w = self._stack(w)
        gradient = self._gradient(w)
        if self.nonconvex is not None:
            gradient -= self.nonconvex.smooth_gradient(w) / self.network_size
        self.work.gradients += 1
        return gradient

    def restrict(self, rows):
        """The same problem for the agents ``rows`` of this one: a slice (the data are views), or an array of indices."""
        block = copy.copy(self)
        rows = _checks.rows(rows, self.agents)
        block.rows = self.rows[rows]
        block.agents, block.work, block.memory = len(block.rows), Work(), {}
        return block

    @abstractmethod
    def digests(self):
        """A digest of each agent's data, strings: equal for equal costs. Checkpoints keep them."""

    def average_gradient(self, w):
        """grad f_i(w_i) of the average form ``U = (1/A) sum_i f_i``, ``f_i = A g_i + r``; shape (agents, P).

        Raises
        ------
        TypeError
            If r is not smooth.
        """
        gradient = self.gradient(w)
        gradient *= self.network_size
        gradient += self.regularizer.gradient(w)
        return gradient

    def objective(self, point):
        """U(point) = sum_i g_i(point) + r(point), a float, over the agents held here; ``point`` has shape (P,)."""
        point = _checks.floats("point", point)
        return float(self.value(self._everywhere(point)).sum() + self.regularizer.value(point))

    def stationarity(self, point):
        """``|w - prox_r(w - grad G(w))|`` at w = ``point`` (P,): zero exactly at stationary points of U."""
        point = _checks.floats("point", point)
        step = point - self.gradient(self._everywhere(point)).sum(axis=0)
        return float(np.linalg.norm(point - self.regularizer.prox(step, 1.0)))

    def _everywhere(self, point):
        point = point.astype(self.dtype, copy=False)
        if point.shape != (self.parameters,):
            raise ValueError(f"point must have shape ({self.parameters},); got {point.shape}")
        return np.broadcast_to(point, (self.agents, self.parameters))

    def _stack(self, w):
        w = _checks.array("w", w)
        if w.shape != (self.agents, self.parameters):
            raise ValueError(f"w must have shape (agents, P) = {(self.agents, self.parameters)}; got {w.shape}")
        return w.astype(self.dtype, copy=False)


class Problem(BaseProblem):
    """Training a model on shards: ``g_i(w) = c sum_m l(f(w, x_m), d_m)`` over the samples m of agent i.

    Parameters
    ----------
    model : Model
    loss : Loss
    shards : Shards
        From :func:`consensus.partition`.
    regularizer : Regularizer, optional
        r; none if omitted.
    reduction : {"mean", "sum"}
        ``mean``: c = 1/N with N the samples of the whole network, so that U is the mean loss plus r. ``sum``: c = 1,
        the convention of [1]_.

    Raises
    ------
    ValueError
        If the features do not fit the model, or the targets the model's outputs or the loss's domain.
    TypeError
        If the model, loss, shards or regularizer are none.

    References
    ----------
    .. [1] Scardapane, Di Lorenzo, "A framework for parallel and distributed training of neural networks", Neural
       Networks 91, 2017, eqs. (1)-(2).

    Examples
    --------
    >>> import numpy as np, consensus
    >>> X, y = np.eye(4), np.array([1.0, 2.0, 3.0, 4.0])
    >>> shards = consensus.partition(X, y, agents=2)
    >>> problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    >>> problem.objective(np.zeros(5))
    3.75
    >>> problem.gradient(np.zeros((2, 5))).sum(axis=0)
    array([-0.25, -0.5 , -0.75, -1.  , -2.5 ])
    """

    def __init__(self, model, loss, shards, regularizer=None, reduction="mean"):
        _checks.model(model), _checks.loss(loss), _checks.shards(shards)
        for name in ("parameters", "outputs"):
            _checks.count(f"{name} of {type(model).__name__}", getattr(model, name))
        if shards.features.shape[2] != getattr(model, "features", shards.features.shape[2]):
            raise ValueError(
                f"the shards have {shards.features.shape[2]} features a sample, but {model} takes {model.features}"
            )
        loss.check(shards.targets[shards.weights > 0], model.outputs)
        super().__init__(shards.rows, shards.network_size, model.parameters, shards.features.dtype, regularizer)
        self.model, self.loss, self.shards = model, loss, shards
        self.reduction = _checks.choice("reduction", reduction, ("mean", "sum"))
        scale = 1 / shards.samples if reduction == "mean" else 1.0
        self.weights = shards.weights * shards.weights.dtype.type(scale)  #: c on samples, zero on padding
        samples = shards.features.shape[1]
        widths = sum(getattr(model, "widths", (shards.features.shape[2], model.outputs)))
        self._bytes = (2 * samples * widths + 2 * model.parameters) * self.dtype.itemsize  # that a gradient touches

    def __repr__(self):
        return (
            f"Problem({self.model}, {self.loss}, {self.agents} agents, {self.shards.samples} samples, "
            f"{self.nonconvex or self.regularizer}, reduction={self.reduction!r})"
        )

    def _value(self, w):
        values = np.empty(self.agents, self.dtype)

        def chunk(rows):
            losses = self.loss.value(self.model.predict(w[rows], self.shards.features[rows]), self.shards.targets[rows])
            values[rows] = np.vecdot(losses, self.weights[rows])

        for_chunks(chunk, self.agents, self._bytes)
        return values

    def _gradient(self, w):
        gradient = np.empty((self.agents, self.parameters), self.dtype)

        def chunk(rows):
            outputs, linearization = self.linearize(w, rows)
            slopes = self.loss.gradient(outputs, self.shards.targets[rows])
            slopes *= self.weights[rows][:, :, None]
            linearization.vjp(slopes, out=gradient[rows])

        for_chunks(chunk, self.agents, self._bytes)
        return gradient

    def digests(self):
        shards = self.shards
        real = shards.weights > 0
        parts = zip(shards.features, shards.targets, real, strict=True)
        return [hashlib.sha256(x[own].tobytes() + d[own].tobytes()).hexdigest() for x, d, own in parts]

    def linearize(self, w, rows):
        """Outputs (agents, samples, outputs) and their linearization at w, for the agents in the slice ``rows``."""
        rows = _checks.rows(rows, self.agents)
        if np.ndim(w) != 2:
            raise ValueError(f"w must have shape (agents, P) = {(self.agents, self.parameters)}; got {np.shape(w)}")
        return linearize(self.model, w[rows], self.shards.features[rows])

    def restrict(self, rows):
        rows = _checks.rows(rows, self.agents)
        block = super().restrict(rows)
        block.shards, block.weights = self.shards.restrict(rows), self.weights[rows]
        return block

    @staticmethod
    def from_functions(value, gradient, agents, parameters, regularizer=None):
        """A problem whose costs are the user's own functions.

        Parameters
        ----------
        value : callable
            w (agents, P) -> (agents,): g_i(w_i), row by row.
        gradient : callable
            w (agents, P) -> (agents, P): grad g_i(w_i), row by row.
        agents, parameters : int
        regularizer : Regularizer, optional

        Returns
        -------
        FunctionProblem

        Examples
        --------
        >>> import numpy as np, consensus
        >>> centres = np.array([[0.0], [2.0]])
        >>> problem = consensus.Problem.from_functions(
        ...     lambda w: ((w - centres) ** 2).sum(axis=1) / 2, lambda w: w - centres, agents=2, parameters=1)
        >>> problem.objective(np.array([1.0]))
        1.0
        """
        from consensus.function_problem import FunctionProblem  # here: that module builds on this one

        return FunctionProblem(value, gradient, agents, parameters, regularizer)
