"""Training a model on shards."""

import hashlib

import numpy as np

from consensus import _checks
from consensus._parallel import for_chunks
from consensus.models import linearize
from consensus.problems.base import BaseProblem
from consensus.problems.functions import FunctionProblem


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
        return FunctionProblem(value, gradient, agents, parameters, regularizer)
