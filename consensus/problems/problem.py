"""Training a model on shards."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import cloudpickle
import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._arrays.rows import taken
from consensus._arrays.sparse import SparseRows
from consensus.data import Shards
from consensus.data.digests import digests
from consensus.data.tables import Classes
from consensus.losses.base import Loss, LossDefaults
from consensus.losses.cross_entropy import CrossEntropy
from consensus.losses.trial import check_samples
from consensus.models import Model, linearize
from consensus.models.linearization import LinearizationDefaults, ModelDefaults
from consensus.problems.batch import Batch, checked
from consensus.problems.curvature import largest_curvature, spectrum_ends
from consensus.problems.functions import Function, FunctionProblem
from consensus.problems.held_out import held_out, owned_test
from consensus.problems.linearizable import check_convex
from consensus.problems.samples import SampleSums, averaged, check_sizes, has_buffers, of_batches
from consensus.problems.state import Cache, SharedProblem, TestSet
from consensus.regularizers import Regularizer
from consensus.workers.shared_memory import SharedArray

if TYPE_CHECKING:
    from consensus.unlike.problem import AgentCost, UnlikeProblem


class Problem(SampleSums):
    """Training a model on shards: ``g_i(w) = c sum_m l(f(w, x_m), d_m)`` over the samples m of agent i.

    Parameters
    ----------
    model : Model
        The model f.
    loss : Loss
        The loss l.
    shards : Shards
        The samples, as :func:`consensus.partition` returns them.
    regularizer : Regularizer or sequence of Regularizer, optional
        The regularizer r; none if omitted. A list has one of each agent, r_i, or None: U has their sum, and only solvers with
        ``needs.own_regularizers`` take it, such as NIDS, PGEXTRA and Subgradient.
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
        regularizer: Regularizer | Sequence[Regularizer | None] | None = None,
        reduction: Literal["mean", "sum"] = "mean",
        micro_batch: int | None = None,
    ) -> None:
        whole, shards = fitted(_checks.completed(model, ModelDefaults), _checks.shards(shards))
        shape, model = shards.features.shape[2:], _checks.model(whole)
        loss = _checks.completed(_checks.loss(loss), LossDefaults)
        for name in ("parameters", "outputs"):
            _checks.count(f"{name} of {type(model).__name__}", getattr(model, name))
        if shape != (wanted := _checks.shape(f"features of {model}", shape if model.features is None else model.features)):
            raise ValueError(misfit(shape, model, wanted))
        check_classes(loss, shards.classes)
        loss = self._fitted_loss(loss, model, shards)
        super().__init__(shards.rows, shards.network_size, model.parameters, shards.targets.dtype, regularizer)
        self.labels = shards.labels
        self.model, self.loss, self.shards = model, loss, shards
        self.reduction = _checks.choice("reduction", reduction, ("mean", "sum"))
        self.micro_batch = None if micro_batch is None else _checks.count("micro_batch", micro_batch)
        scale = 1 / total_weight(loss, shards) if reduction == "mean" else 1.0
        self.weights = scaled(shards.weights, scale)  #: c on samples, zero on padding
        self._samples = int(np.count_nonzero(self.weights))
        self._plan_sums(math.prod(shape))

    def __repr__(self) -> str:
        size, r = f"{self.agents} agents, {self.shards.samples} samples", self.nonconvex or self.regularizer
        return f"Problem({self.model}, {self.loss}, {size}, {r}, reduction={self.reduction!r})"

    def _fitted_loss(self, loss: Loss, model: ModelDefaults, shards: Shards) -> Loss:
        """Return the loss for the model's outputs and the targets; raise ``ValueError`` if they do not fit."""
        targets, outputs = shards.targets[shards.weights > 0], model.output_shape
        check_labels(outputs, loss, targets.shape[-1], model)
        return fitted_loss(loss, model, targets, outputs, shards.weights)

    def _lipschitz(self, w: np.ndarray | None) -> np.ndarray:
        bound, design = self.loss.curvature_bound, self.model.design
        return largest_curvature(self, w) if design is None or bound is None else bound * spectrum_ends(self, design)[1]

    def _strong_convexity(self) -> np.ndarray:
        if not self.model.jacobian_is_constant:
            raise TypeError(f"a loss of {self.model} need not be convex: give the solver a convexity=")
        check_convex("a modulus of strong convexity", self.loss)
        bound, design = self.loss.curvature_bound, self.model.design  # the first is the curvature of a quadratic loss
        if design is None or bound is None or not self.loss.quadratic:
            return np.zeros(self.agents)
        return bound * spectrum_ends(self, design)[0]

    def shared(self) -> SharedProblem:
        bare, shards, none = self.restrict(slice(None)), self.shards, np.empty(0)
        held = shards.features
        hollow, arrays = (held.hollow(), held.arrays) if isinstance(held, SparseRows) else (none, (held,))
        data = shards.targets, shards.weights, shards.indices, self.weights, *arrays
        bare.shards = replace(shards, features=hollow, targets=none, weights=none, indices=none, memory=())
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

    def linearize(self, w: np.ndarray, rows: slice | ArrayLike) -> tuple[np.ndarray, LinearizationDefaults]:
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
            For points (agents, P) each agent's own. For one point (P,) the means and variances over the agents held here,
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
        if self.model.buffers == "keep":
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
        problem.model, problem.cache = _checks.completed(cast(Any, self.model).evaluated(buffers), ModelDefaults), Cache()
        problem._plan_sums(math.prod(self.shards.features.shape[2:]))
        return problem

    def objective(self, point: ArrayLike) -> float:
        if self.model.buffers != "average":
            return super().objective(point)
        return self.evaluated(self.buffers(point)).objective(point)

    def _check_buffers(self) -> None:
        if not has_buffers(self.model):
            raise TypeError(f"{self} has no buffers: its model has no batch normalisation in training mode")

    def _statistics(self, w: np.ndarray) -> np.ndarray:
        """Return the buffers (agents, B) of each agent's samples at its own point."""

        def noted(w: np.ndarray, x: np.ndarray, d: np.ndarray, c: np.ndarray, out: np.ndarray, model: Model) -> None:
            out[0] = cast(Any, model).statistics(w, x)

        return self._over_samples(noted, w, (cast(Any, self.model).buffer_size,))

    def test_set(self, test: Any) -> TestSet:  # noqa: ANN401  # arrays or frames of any library
        return owned_test(self, test) if isinstance(test, Shards) else held_out(self, test)

    @staticmethod
    def from_functions(
        value: Function,
        gradient: Function,
        agents: int,
        parameters: int,
        regularizer: Regularizer | Sequence[Regularizer | None] | None = None,
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
        regularizer : Regularizer or sequence of Regularizer, optional
            The regularizer r; none if omitted. A list has one of each agent, as for :class:`consensus.Problem`.
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

    @staticmethod
    def from_agents(
        costs: Sequence[AgentCost],
        parameters: int | None = None,
        regularizer: Regularizer | Sequence[Regularizer | None] | None = None,
        lipschitz: ArrayLike | None = None,
        labels: Sequence[Hashable] | None = None,
    ) -> UnlikeProblem:
        """Return a problem whose agents have costs of different kinds.

        Parameters
        ----------
        costs : sequence
            For each agent a pair ``(value, gradient)`` of functions of its w (P,); or a scalar CVXPY expression of one variable
            (P,), whose gradient CVXPY finds; or a problem of one agent, such as ``consensus.Problem(model, loss,
            consensus.partition(X, y, agents=1))`` with a model and a loss of its own, and no regularizer.
        parameters : int, optional
            P; needed if all costs are functions.
        regularizer : Regularizer or sequence of Regularizer, optional
            The regularizer r; none if omitted. A list has one of each agent, as for :class:`consensus.Problem`.
        lipschitz : float or array_like (agents,), optional
            Lipschitz constants of the grad g_i; problems know their own.
        labels : sequence, optional
            The names of the agents.

        Returns
        -------
        UnlikeProblem
            The problem.

        Notes
        -----
        Costs are evaluated one after another, those of CVXPY in some milliseconds:
        :meth:`consensus.Problem.from_functions` is faster where all agents' costs are of one kind.

        Examples
        --------
        >>> import cvxpy as cp, numpy as np, consensus, topologies
        >>> from consensus.solvers import GradientTracking
        >>> x = cp.Variable(2)
        >>> one = consensus.partition(np.eye(2), np.ones(2), agents=1)
        >>> problem = consensus.Problem.from_agents([
        ...     (lambda w: ((w - 3) ** 2).sum() / 2, lambda w: w - 3),
        ...     cp.sum(cp.logistic(x)),
        ...     consensus.Problem(consensus.Linear(2, bias=False), consensus.SquaredLoss(), one)])
        >>> result = consensus.solve(problem, topologies.ring(3), GradientTracking(0.1), rounds=300)
        >>> bool(result.history["stationarity"][-1] < 1e-9)
        True
        """
        from consensus.unlike.problem import UnlikeProblem

        return UnlikeProblem(costs, parameters, regularizer, lipschitz, labels)


def total_weight(loss: Loss, shards: Shards) -> float:
    """Return the sum over the whole network of the weights of samples, times those that the loss gives their labels.

    Raise ``ValueError`` if it is zero, or if it takes the labels of agents that are not held here.
    """
    of_labels = loss.label_weights(shards.targets)
    if not isinstance(of_labels, np.ndarray):
        of_samples = shards.total_weight
        return float(of_labels) * (shards.samples if of_samples is None else of_samples)
    if shards.agents < shards.network_size:
        raise ValueError(
            f"reduction='mean' divides by the weights of all labels of the network with {loss}, and these are shards of "
            f"{shards.agents} of {shards.network_size} agents: take reduction='sum', and divide the weights by their total"
        )
    total = float(np.vecdot(shards.weights, of_labels, dtype=np.float64).sum())
    if not total:
        raise ValueError(f"samples must have labels that count with {loss}; in these shards all have the weight zero")
    return total


def scaled(weights: np.ndarray, factor: float) -> np.ndarray:
    """Return weights times a factor; zeros, the padding of smaller shards, are not touched, and take no memory."""
    found: np.ndarray = np.zeros(weights.shape, weights.dtype)
    np.multiply(weights, weights.dtype.type(factor), out=found, where=weights != 0)
    return found


def check_classes(loss: Loss, classes: Classes | None) -> None:
    """Raise ``ValueError`` if the loss would fit the codes of classes, as numbers."""
    if classes is None or not loss.regression or classes in ((False, True), tuple(range(len(classes)))):
        return
    name = "LogisticLoss()" if len(classes) == 2 else f"CrossEntropy() and a model with {len(classes)} outputs"
    raise ValueError(
        f"{type(loss).__name__} fits numbers, and the targets of these shards are codes of the classes "
        f"{_checks.listed(classes)}: take {name}"
    )


def fitted(model: ModelDefaults, shards: Shards) -> tuple[ModelDefaults, Shards]:
    """Return ``model`` for samples of the shape and dtype of ``shards``, and the shards in the precision of the run.

    Whole numbers are kept for a model that takes them, which then runs in the precision of its own parameters.
    """
    features, for_samples = shards.features, model.for_samples
    if isinstance(features, SparseRows):
        check_sparse(model, features)
        model, for_samples = _checks.completed(model.for_sparse(), ModelDefaults), None
    if for_samples:
        given = (features.dtype,) if model.takes_integers else ()
        model = _checks.completed(for_samples(features.shape[2:], *given), ModelDefaults)
    if features.dtype.kind == "f":
        return model, shards
    if model.whole:
        dtype = np.result_type(model.init(np.random.default_rng(0)), np.float32)
        return model, replace(shards, targets=shards.targets.astype(dtype), weights=shards.weights.astype(dtype))
    if for_samples and model.takes_integers:
        model = _checks.completed(for_samples(features.shape[2:], np.float64), ModelDefaults)
    logging.getLogger("consensus").info("features in %s become float64, as %s takes no whole numbers", features.dtype, model)
    return model, replace(shards, features=features.astype(np.float64))


def check_sparse(model: ModelDefaults, rows: SparseRows) -> None:
    """Raise ``TypeError`` if a model takes dense features alone, and these are sparse."""
    if not model.for_sparse:
        size = rows.size * rows.dtype.itemsize
        takes = f"{size / 1e9:.3g} GB" if size > 1e9 else f"{size / 1e6:.2g} MB"
        raise TypeError(
            f"{model} takes dense features, and those of the shards are sparse, {rows.shape[2]} a sample: make the shards of "
            f"X.toarray(), which takes {takes}, or take consensus.Linear({rows.shape[2]})"
        )


def fitted_loss(
    loss: Loss, model: Model, targets: np.ndarray, shape: tuple[int, ...], weights: np.ndarray | None = None
) -> Loss:
    """Return ``loss`` for a model's outputs and for all targets (samples, columns); raise ``ValueError`` if they do not fit.

    ``shape`` is that of a sample's outputs, ``weights`` are those of the samples, if they may differ. A loss of another package
    is tried on the targets; one of PyTorch comes back with what its trial found.
    """
    loss.check(targets, model.outputs)
    whole = of_batches(loss)
    given = weights[weights > 0] if whole and weights is not None else np.empty(0)
    if len(given) and given.min() != given.max():
        raise ValueError(
            f"{loss} is a loss of a whole batch, in which samples have no weights of their own; these have "
            f"{given.min():g} to {given.max():g}: leave sample_weight out"
        )
    if not whole and type(loss).__module__.partition(".")[0] != "consensus":
        check_samples(loss, targets, model.outputs)
    loss = loss.settled(targets, model.outputs, shape) if loss.settled else loss
    if whole and weights is not None:
        check_sizes(loss, np.unique((weights > 0).sum(axis=1)).tolist(), targets, model.outputs)
    return loss


def check_labels(shape: tuple[int, ...], loss: Loss, columns: int, model: object) -> None:
    """Raise ``ValueError`` if outputs of a ``shape``, such as (tokens, ..., classes), have another number of targets.

    Losses of classes take the last axis as that of the classes. PyTorch's takes the first one of a sample, which shows in the
    number of labels, unless the first and the last are as long: then the shape does not tell, and flat outputs do.
    """
    if len(shape) < 2 or loss.settled:  # as one of PyTorch, which says by a call what it takes
        return
    last, first, numbers = math.prod(shape[:-1]), math.prod(shape[1:]), math.prod(shape)
    if columns not in (last, first, numbers):
        each = f"{last} labels, or {numbers} numbers"
        raise ValueError(f"targets must have {each} for a sample's outputs {shape} of {model}; got {columns} columns")
    if columns != first or columns == numbers or not isinstance(loss, CrossEntropy):
        return
    layout = f"{model} returns {shape} a sample, with {columns} labels each"
    if columns != last:
        raise ValueError(
            f"{layout}: that is PyTorch's layout, (samples, classes, ...), and {type(loss).__name__} takes classes last: let "
            "the module return outputs.movedim(1, -1), as by a class derived from it with the method "
            "def forward(self, x): return super().forward(x).movedim(1, -1)"
        )
    raise ValueError(
        f"{layout}: classes may be the first axis or the last one, which are as long: let the module return "
        "outputs.movedim(1, -1).flatten(1) if they are the first, as in PyTorch's layout, and outputs.flatten(1) if the last"
    )


def misfit(shape: tuple[int, ...], model: Model, wanted: tuple[int, ...]) -> str:
    """Return the message that ``model`` takes samples of another shape, and how to reshape them if that is possible."""
    found, takes = (sizes if len(sizes) > 1 else sizes[0] for sizes in (shape, wanted))
    same = math.prod(shape) == math.prod(wanted)
    remedy = f": X.reshape(len(X), {', '.join(map(str, wanted))})" if same else ""
    return f"the shards have {found} features a sample, but {model} takes {takes}{remedy}"
