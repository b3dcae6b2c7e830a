"""Training a model on shards."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Literal, Self

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._rows import taken
from consensus._sparse import SparseRows
from consensus.data import Shards
from consensus.data.digests import digests
from consensus.losses.base import Loss
from consensus.models import Linearization, Model, linearize
from consensus.problems.batch import Batch, checked
from consensus.problems.buffers import BufferedSums
from consensus.problems.cache import Cache
from consensus.problems.curvature import largest_curvature, spectrum_ends
from consensus.problems.functions import Function, FunctionProblem
from consensus.problems.linearizable import check_convex
from consensus.problems.sample_shapes import check_classes, check_labels, fitted, fitted_loss, misfit
from consensus.problems.shared import SharedProblem
from consensus.problems.total_weight import scaled, total_weight
from consensus.regularizers import Regularizer
from consensus.workers.shared_memory import SharedArray


class Problem(BufferedSums):
    """Training a model on shards: ``g_i(w) = c sum_m l(f(w, x_m), d_m)`` over the samples m of agent i.

    Parameters
    ----------
    model : Model
        The model f.
    loss : Loss
        The loss l.
    shards : Shards
        The samples, as :func:`consensus.partition` returns them.
    regularizer : Regularizer, optional
        The regularizer r; none if omitted.
    reduction : {"mean", "sum"}
        With ``mean`` c = 1/N, N the samples of the whole network, so that U is the mean loss plus r. If the loss gives labels
        weights, as :class:`CrossEntropy` may, N is their sum. With ``sum`` c = 1, the convention of [1]_.
    micro_batch : int, optional
        Samples of an agent in one pass through the model, in objectives, gradients of all samples and errors on test sets.
        Larger shards are added up from several passes, and differ from a single one by rounding. By default as many as take
        an estimated 32 MB, of a model on a GPU 256 MB; no limit for batch normalisation in training, which needs all samples.

    Raises
    ------
    ValueError
        If the features do not fit the model, or the targets the model's outputs or the loss's domain.
    TypeError
        If the model, loss, shards or regularizer lacks what these need.

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
    >>> problem.total_gradient(np.zeros(5))
    array([-0.25, -0.5 , -0.75, -1.  , -2.5 ])
    """

    def __init__(
        self,
        model: Model,
        loss: Loss,
        shards: Shards,
        regularizer: Regularizer | None = None,
        reduction: Literal["mean", "sum"] = "mean",
        micro_batch: int | None = None,
    ) -> None:
        model, shards = fitted(model, _checks.shards(shards))
        shape = shards.features.shape[2:]
        _checks.model(model)
        _checks.loss(loss)
        for name in ("parameters", "outputs"):
            _checks.count(f"{name} of {type(model).__name__}", getattr(model, name))
        if shape != (wanted := _checks.shape(f"features of {model}", getattr(model, "features", shape))):
            raise ValueError(misfit(shape, model, wanted))
        check_classes(loss, getattr(shards, "classes", None))
        loss = self._fitted_loss(loss, model, shards)
        super().__init__(shards.rows, shards.network_size, model.parameters, shards.targets.dtype, regularizer)
        self.labels = getattr(shards, "labels", None)
        self.model, self.loss, self.shards = model, loss, shards
        self.reduction = _checks.choice("reduction", reduction, ("mean", "sum"))
        self.micro_batch = None if micro_batch is None else _checks.count("micro_batch", micro_batch)
        scale = 1 / total_weight(loss, shards) if reduction == "mean" else 1.0
        self.weights = scaled(shards.weights, scale)  #: c on samples, zero on padding
        self._samples = int(np.count_nonzero(self.weights))
        self._prepare_sums(math.prod(shape))

    def __repr__(self) -> str:
        size, r = f"{self.agents} agents, {self.shards.samples} samples", self.nonconvex or self.regularizer
        return f"Problem({self.model}, {self.loss}, {size}, {r}, reduction={self.reduction!r})"

    def _fitted_loss(self, loss: Loss, model: Model, shards: Shards) -> Loss:
        """Return the loss for the model's outputs and the targets; raise ``ValueError`` if they do not fit."""
        targets, outputs = shards.targets[shards.weights > 0], getattr(model, "output_shape", ())
        check_labels(outputs, loss, targets.shape[-1], model)
        return fitted_loss(loss, model, targets, outputs, shards.weights)

    def _lipschitz(self, w: np.ndarray | None) -> np.ndarray:
        bound, design = self._bound_and_design()
        return largest_curvature(self, w) if design is None or bound is None else bound * spectrum_ends(self, design)[1]

    def _strong_convexity(self) -> np.ndarray:
        if not getattr(self.model, "jacobian_is_constant", False):
            raise TypeError(f"a loss of {self.model} need not be convex: give the solver a convexity=")
        check_convex("a modulus of strong convexity", self.loss)
        bound, design = self._bound_and_design()  # the curvature of a quadratic loss
        if design is None or bound is None or not self.loss.quadratic:
            return np.zeros(self.agents)
        return bound * spectrum_ends(self, design)[0]

    def _bound_and_design(self) -> tuple[float | None, Callable[[np.ndarray], np.ndarray] | None]:
        return getattr(self.loss, "curvature_bound", None), getattr(self.model, "design", None)

    def shared(self) -> SharedProblem:
        bare, shards, none = self.restrict(slice(None)), self.shards, np.empty(0)
        features = shards.features.arrays if isinstance(shards.features, SparseRows) else (shards.features,)
        data = shards.targets, shards.weights, shards.indices, self.weights, *features
        bare.shards = replace(
            shards,
            features=shards.features.hollow() if isinstance(shards.features, SparseRows) else none,
            targets=none,
            weights=none,
            indices=none,
            memory=(),
        )
        bare.weights = none
        return SharedProblem(cloudpickle.dumps(bare), tuple(SharedArray.of(array) for array in data))

    def take(self, *data: np.ndarray) -> None:
        """Use these arrays in place of those that :meth:`shared` left out.

        Parameters
        ----------
        *data : ndarray
            The arrays, in the order of :meth:`shared`.
        """
        targets, weights, indices, self.weights, *stored = data
        held = self.shards.features
        features = held.with_arrays(*stored) if isinstance(held, SparseRows) else stored[0]
        self.shards = replace(self.shards, features=features, targets=targets, weights=weights, indices=indices)

    @property
    def load(self) -> np.ndarray:
        return self.shards.sizes + 1.0

    def digests(self) -> list[str]:
        return digests(self.shards)

    def linearize(self, w: np.ndarray, rows: slice | ArrayLike) -> tuple[np.ndarray, Linearization]:
        """Return outputs and their linearization at w, for some agents.

        Parameters
        ----------
        w : ndarray (agents, P)
            The points of all agents held here.
        rows : slice or array_like of int
            The agents.

        Returns
        -------
        outputs : ndarray (agents in rows, samples, outputs)
            The outputs f(w, x).
        linearization : Linearization
            Products with the Jacobian of f.
        """
        rows = _checks.rows(rows, self.agents)
        if np.ndim(w) != 2:
            raise ValueError(f"w must have shape (agents, P) = {(self.agents, self.parameters)}; got {np.shape(w)}")
        return linearize(self.model, w[rows], self.shards.features[rows])

    def restrict(self, rows: slice | ArrayLike) -> Self:
        rows = _checks.rows(rows, self.agents)
        block = super().restrict(rows)
        block.shards, block.weights = self.shards.restrict(rows), self.weights[rows]
        block._samples = int(np.count_nonzero(block.weights))
        return block

    def sampled(self, batch: Batch) -> Self:
        """Return the problem of the same agents with the samples of a batch only; its work counts as this problem's.

        Parameters
        ----------
        batch : Batch
            The samples.

        Returns
        -------
        Problem
            A problem whose gradient is ``gradient(w, batch)``; of a stochastic model, that of its evaluation mode.
        """
        places, weights = checked(batch, self.agents, self.weights.shape[1])
        problem, shards, real = copy.copy(self), self.shards, weights > 0
        features, targets = taken(shards.features, places), taken(shards.targets, places)
        if isinstance(features, SparseRows):
            features = features.kept(real)
        else:
            features[~real] = 0  # as the padding of shards
        targets[~real] = 0
        indices = np.where(real, taken(shards.indices, places), -1)
        problem.shards = replace(shards, features=features, targets=targets, weights=real.astype(self.dtype), indices=indices)
        problem.weights = taken(self.weights, places) * weights
        problem._samples, problem.cache = int(np.count_nonzero(real)), Cache()
        return problem

    @staticmethod
    def from_functions(
        value: Function,
        gradient: Function,
        agents: int,
        parameters: int,
        regularizer: Regularizer | None = None,
        lipschitz: ArrayLike | None = None,
        labels: Sequence[Hashable] | None = None,
    ) -> FunctionProblem:
        """Return a problem whose costs are the user's own functions; :func:`consensus.testing.check_problem` tries them.

        Parameters
        ----------
        value : callable
            Maps w (agents, P) to the costs g_i(w_i) (agents,), row by row.
        gradient : callable
            Maps w (agents, P) to the gradients grad g_i(w_i) (agents, P), row by row. A function with an argument named
            ``rows`` gets w of some agents and their numbers, an array of int, so that a worker computes its own agents only.
            Functions of w alone get all agents in every process.
        agents : int
            Number of agents.
        parameters : int
            P.
        regularizer : Regularizer, optional
            The regularizer r; none if omitted.
        lipschitz : float or array_like (agents,), optional
            Lipschitz constants of the grad g_i, by which solvers choose a step size that is not given.
        labels : sequence, optional
            The names of the agents.

        Returns
        -------
        FunctionProblem
            The problem.

        Examples
        --------
        >>> import numpy as np, consensus
        >>> centres = np.array([[0.0], [2.0]])
        >>> problem = consensus.Problem.from_functions(
        ...     lambda w: ((w - centres) ** 2).sum(axis=1) / 2, lambda w: w - centres, agents=2, parameters=1)
        >>> problem.objective(np.array([1.0]))
        1.0

        With ``rows`` every process computes its own agents only:

        >>> def value(w, rows):
        ...     return ((w - centres[rows]) ** 2).sum(axis=1) / 2
        >>> def gradient(w, rows):
        ...     return w - centres[rows]
        >>> problem = consensus.Problem.from_functions(value, gradient, agents=2, parameters=1)
        >>> problem.restrict([1]).gradient(np.array([[5.0]]))
        array([[3.]])
        """
        return FunctionProblem(value, gradient, agents, parameters, regularizer, lipschitz, labels)
