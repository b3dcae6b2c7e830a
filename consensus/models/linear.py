"""Linear models."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from consensus import _checks, kernels
from consensus._arrays.sparse import SparseRows, canonical
from consensus.models.layers import Layered, LayeredLinearization


def method_of(loss: object, name: str, *others: str) -> Callable[..., Any] | None:
    """Return the loss's method ``name`` if it was defined together with the methods ``others``, on which it depends.

    None if the loss lacks the method, or a subclass has overridden some of the others but not this one.
    """

    def owner(method: str) -> type | None:
        return next((kind for kind in type(loss).__mro__ if method in vars(kind)), None)

    defined = owner(name) is not None and all(owner(name) is owner(other) for other in others)
    return getattr(loss, name) if defined else None


class Linear(Layered):
    """``f = x W + b``: W (features, outputs) row by row, then b (outputs,), in the parameter vector.

    Features may be sparse, in any format of scipy.sparse: they stay so in problems and predictions.

    Parameters
    ----------
    features, outputs : int
        Numbers of features and outputs of a sample.
    bias : bool
        Whether there is a b; it is a parameter like the others, and is regularized like them.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import Linear
    >>> Linear(2).predict(np.array([1.0, 2.0, 0.5]), np.array([[1.0, 1.0], [0.0, 3.0]]))
    array([[3.5],
           [6.5]])
    """

    jacobian_is_constant = True  # so that local solvers keep its factors

    def __init__(self, features: int, outputs: int = 1, bias: bool = True) -> None:
        widths = (_checks.count("features", features), _checks.count("outputs", outputs))
        super().__init__(widths, _checks.flag("bias", bias), None)

    def __repr__(self) -> str:
        return f"Linear({self.features}, outputs={self.outputs}, bias={self.bias})"

    def design(self, x: np.ndarray) -> np.ndarray:
        """Return the design matrices.

        Parameters
        ----------
        x : ndarray (agents, samples, features)
            Features.

        Returns
        -------
        ndarray (agents, samples, m)
            The features, with a column of ones if there is a bias.
        """
        x = _checks.floats("x", x)
        if x.ndim != 3:
            raise ValueError(f"x must have shape (agents, samples, features); got {x.shape}")
        return np.concatenate([x, np.ones((*x.shape[:2], 1), x.dtype)], axis=2) if self.bias else x

    def gradient_of(self, loss: object) -> kernels.FusedSums | None:
        """Return the compiled sums of a loss.

        Parameters
        ----------
        loss : Loss
            Any loss.

        Returns
        -------
        FusedSums or None
            None if nothing is compiled, the loss has no such sums, or there are several outputs.
        """
        if type(self) is not Linear or self.outputs > 1 or kernels.level() is None:
            return None
        fused = method_of(loss, "fused_sums", "value", "gradient")
        return None if fused is None else fused()

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Return the customary start of a convex problem, zero.

        Parameters
        ----------
        rng : numpy.random.Generator
            Not used.

        Returns
        -------
        ndarray (P,)
            Zeros.
        """
        return np.zeros(self.parameters)

    def predict(self, w: np.ndarray, x: Any) -> np.ndarray:  # noqa: ANN401  # an array, or a sparse one
        if not sp.issparse(x):
            return super().predict(w, x)
        if x.ndim != 2 or x.shape[1] != self.features:
            raise ValueError(f"x must have shape (samples, {self.features}) for {self}; got {x.shape}")
        rows: Any = SparseRows.filled([canonical(x)], x.shape[0])
        w = _checks.floats("w", w)
        return np.asarray(super().predict(w[None], rows)[0]) if w.ndim == 1 else super().predict(w, rows)

    def _numbers(self, x: Any) -> Any:  # noqa: ANN401
        return x if isinstance(x, SparseRows) else super()._numbers(x)

    def for_sparse(self) -> "SparseLinear":
        """Return the model for sparse features.

        Returns
        -------
        Linear
            The same function of the same parameters, without the methods whose results would be as large as dense features.
        """
        return SparseLinear(self.features, self.outputs, self.bias)


class SparseLinearization(LayeredLinearization):
    """Products with the Jacobian of a linear model of sparse features."""

    jacobian = gram = upper_gram = cast(Any, None)  # as large as dense features

    def diagonal(self, weights: np.ndarray) -> np.ndarray:
        """Return the diagonal of J' diag(weights) J, shape (agents, P), for weights (agents, samples, outputs)."""
        diagonal = np.zeros((len(self._w), self._model.parameters), self._w.dtype)
        ((part, bias),) = self._model._split(diagonal)
        rows: Any = self._inputs[0]
        np.matmul(rows.squared().swapaxes(1, 2), weights, out=part)
        if bias is not None:
            np.sum(weights, axis=1, keepdims=True, out=bias)
        return diagonal


class SparseLinear(Linear):
    """The model of :meth:`Linear.for_sparse`."""

    _linearization = SparseLinearization
    jacobian = gram = cast(Any, None)

    @property
    def plain(self) -> Linear:
        """The model for features of any kind."""
        return Linear(self.features, self.outputs, self.bias)

    def for_sparse(self) -> "SparseLinear":
        return self

    def design(self, x: Any) -> Any:  # noqa: ANN401
        return x.with_ones() if self.bias else x
