"""Training a model on shards."""

import copy
import functools
import hashlib
import math
from dataclasses import replace
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks, kernels
from consensus._parallel import for_rows
from consensus._rows import empty, taken
from consensus.data import Shards
from consensus.losses.base import Loss
from consensus.models.base import Linearization, Model, linearize
from consensus.models.linear import Linear
from consensus.problems.base import BaseProblem
from consensus.problems.curvature import largest_curvature, spectrum_ends
from consensus.problems.functions import Function, FunctionProblem
from consensus.problems.fused import fused
from consensus.problems.minibatches import Batch, checked
from consensus.regularizers import L2, Regularizer

_FEW = 1 << 20  # bytes of features, of all agents: one core reads them in less time than is spent on handing them out


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
    ) -> None:
        _checks.shards(shards)
        shape = shards.features.shape[2:]
        model = _checks.model(model.for_samples(shape) if hasattr(model, "for_samples") else model)
        _checks.loss(loss)
        for name in ("parameters", "outputs"):
            _checks.count(f"{name} of {type(model).__name__}", getattr(model, name))
        if shape != (wanted := _checks.shape(f"features of {model}", getattr(model, "features", shape))):
            raise ValueError(_misfit(shape, model, wanted))
        loss.check(shards.targets[shards.weights > 0], model.outputs)
        super().__init__(shards.rows, shards.network_size, model.parameters, shards.features.dtype, regularizer)
        self.model, self.loss, self.shards = model, loss, shards
        self.reduction = _checks.choice("reduction", reduction, ("mean", "sum"))
        scale = 1 / shards.samples if reduction == "mean" else 1.0
        self.weights = shards.weights * shards.weights.dtype.type(scale)  #: c on samples, zero on padding
        self._samples = int(np.count_nonzero(self.weights))
        self._fused = fused(model, loss)
        # The number times w that the regularizer adds to gradients; None where that is not all.
        self._ridge = self.regularizer.weight if self.nonconvex is None and type(self.regularizer) is L2 else None
        # What a gradient touches: for a sample, with its numbers on their way through the model, and for an agent once.
        size = math.prod(shape)
        numbers = size + 2 * sum(getattr(model, "widths", (size, model.outputs))[1:])
        self._sample_bytes, self._agent_bytes = (count * self.dtype.itemsize for count in (numbers, 2 * model.parameters))

    def __repr__(self) -> str:
        return (
            f"Problem({self.model}, {self.loss}, {self.agents} agents, {self.shards.samples} samples, "
            f"{self.nonconvex or self.regularizer}, reduction={self.reduction!r})"
        )

    def _value(self, w: np.ndarray) -> np.ndarray:
        values, x, d, c = np.empty(self.agents, self.dtype), self.shards.features, self.shards.targets, self.weights

        def predicted(x, d, c, w, out):
            np.vecdot(self.loss.value(self.model.predict(w, x), d), c, out)

        into = predicted if self._fused is None else self._fused.value
        for_rows(into, (x, d, c, w, values), self._bytes(x.shape[1]))
        return values

    def _gradient(self, w: np.ndarray) -> np.ndarray:
        return self._sum(w, None)

    def _batch_gradient(self, w: np.ndarray, batch: Batch) -> np.ndarray:
        return self._sum(w, batch)

    def average_gradient(self, w: np.ndarray, batch: Batch | None = None) -> np.ndarray:
        if self._ridge is None:
            return super().average_gradient(w, batch)
        self.work.gradients += 1
        return self._sum(self._stack(w), batch, self.network_size, self._ridge)

    def descended(
        self, x: np.ndarray, alpha: float, w: np.ndarray, batch: Batch | None = None, over: np.ndarray | None = None
    ) -> np.ndarray:
        if self._ridge is None or self._fused is not None or x.dtype != self.dtype:
            return super().descended(x, alpha, w, batch, over)
        self.work.gradients += 1
        w, result = self._stack(w), empty(x.shape, self.dtype) if over is None else over
        numbers = [np.array(number, self.dtype) for number in (alpha, self.network_size, self._ridge)]

        def descend(features, targets, weights, w, x, result):
            gradient = np.empty(w.shape, self.dtype)
            self._linearized(features, targets, weights, w, gradient)
            kernels.descended(x, gradient, w, *numbers, out=result)

        self._with_samples(descend, batch, (w, x, result))
        return result

    def _sum(self, w, batch, scale=None, ridge=0.0):
        """The sum of the gradients of a ``batch``'s samples times their weights, or of all samples'.

        With a ``scale`` it is taken times that, and ``ridge`` w added, while it is in cache.
        """
        gradient, shards, fused = empty(w.shape, self.dtype), self.shards, self._fused
        if fused is not None and batch is None and shards.features.nbytes <= _FEW:
            self.work.samples += self._samples
            fused.gradient(shards.features, shards.targets, self.weights, w, gradient, scale, ridge)
        else:
            self._with_samples(fused.gradient if fused else self._linearized, batch, (w, gradient), scale, ridge)
        return gradient

    def _with_samples(self, function, batch, arrays, *more):
        """Call ``function(x, d, c, *arrays, *more)``, some agents after others, with a ``batch``'s samples or all.

        These are x (agents, samples, ...), targets d and weights c (agents, samples); they are counted.
        """
        x, d, c, once = self.shards.features, self.shards.targets, self.weights, self._agent_bytes
        if batch is None:
            self.work.samples += self._samples
            for_rows(function, (x, d, c, *arrays), self._bytes(x.shape[1]), once, *more)
            return

        def of_batch(places, x, d, *rest):
            function(taken(x, places), taken(d, places), *rest)

        batch = checked(batch, self.agents, c.shape[1])
        self.work.samples += int(np.count_nonzero(batch.weights))
        c = taken(c, batch.indices) * batch.weights
        for_rows(of_batch, (batch.indices, x, d, c, *arrays), self._bytes(c.shape[1]), once, *more)

    def _linearized(self, x, d, c, w, out, scale=None, ridge=0.0):
        """Put the sum for agents with samples (x, d), weights c and parameters w into ``out``, by the model's linearization."""
        # One product with the Jacobian is all that is asked for: of a model's own linearization no more is needed.
        at = getattr(self.model, "linearize", None) or functools.partial(linearize, self.model)
        outputs, linearization = at(w, x)
        slopes = self.loss.gradient(outputs, d)
        slopes *= c[:, :, None]
        linearization.vjp(slopes, out=out)
        if scale is not None:
            kernels.combined(out, w, np.array(scale, out.dtype), np.array(ridge, out.dtype), out=out)

    def _lipschitz(self, w: np.ndarray | None) -> np.ndarray:
        bound = getattr(self.loss, "curvature_bound", None)
        if isinstance(self.model, Linear) and bound is not None:
            return bound * spectrum_ends(self)[1]
        return largest_curvature(self, w)

    def _strong_convexity(self) -> np.ndarray:
        if not getattr(self.model, "jacobian_is_constant", False):
            raise TypeError(f"a loss of {self.model} need not be convex: give the solver a convexity=")
        bound = getattr(self.loss, "curvature_bound", None)  # of a quadratic loss its curvature
        known = isinstance(self.model, Linear) and self.loss.quadratic and bound is not None
        return bound * spectrum_ends(self)[0] if known else np.zeros(self.agents)

    def _bytes(self, samples):
        """What a gradient on so many samples touches for one agent."""
        return samples * self._sample_bytes + self._agent_bytes

    def digests(self) -> list[str]:
        shards = self.shards
        real = shards.weights > 0
        parts = zip(shards.features, shards.targets, real, strict=True)
        return [hashlib.sha256(x[own].tobytes() + d[own].tobytes()).hexdigest() for x, d, own in parts]

    def linearize(self, w: np.ndarray, rows: slice | ArrayLike) -> tuple[np.ndarray, Linearization]:
        """Outputs (agents, samples, outputs) and their linearization at w, for the agents in the slice ``rows``."""
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
        """The same agents with the samples of a ``batch`` alone, in its weights; its work counts as this problem's.

        Its gradient is ``gradient(w, batch)``, and its surrogates are of the batch, too.
        """
        places, weights = checked(batch, self.agents, self.weights.shape[1])
        part, shards, real = copy.copy(self), self.shards, weights > 0
        features, targets = taken(shards.features, places), taken(shards.targets, places)
        features[~real], targets[~real] = 0, 0  # as shards are filled up
        indices = np.where(real, taken(shards.indices, places), -1)
        part.shards = replace(shards, features=features, targets=targets, weights=real.astype(self.dtype), indices=indices)
        part.weights = taken(self.weights, places) * weights
        part._samples, part.memory = int(np.count_nonzero(real)), {}
        return part

    @staticmethod
    def from_functions(
        value: Function,
        gradient: Function,
        agents: int,
        parameters: int,
        regularizer: Regularizer | None = None,
        lipschitz: ArrayLike | None = None,
    ) -> FunctionProblem:
        """A problem whose costs are the user's own functions.

        Parameters
        ----------
        value : callable
            w (agents, P) -> (agents,): g_i(w_i), row by row.
        gradient : callable
            w (agents, P) -> (agents, P): grad g_i(w_i), row by row.
        agents, parameters : int
        regularizer : Regularizer, optional
        lipschitz : float or array_like (agents,), optional
            Lipschitz constants of the grad g_i: solvers that are given no step choose theirs by them.

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
        return FunctionProblem(value, gradient, agents, parameters, regularizer, lipschitz)


def _misfit(shape, model, wanted):
    """That ``model`` takes samples of another shape, and what to do where they have as many numbers."""
    found, takes = (sizes if len(sizes) > 1 else sizes[0] for sizes in (shape, wanted))
    same = math.prod(shape) == math.prod(wanted)
    remedy = f": X.reshape(len(X), {', '.join(map(str, wanted))})" if same else ""
    return f"the shards have {found} features a sample, but {model} takes {takes}{remedy}"
