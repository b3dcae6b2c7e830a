"""The squared Euclidean norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.regularizers.base import Regularizer
from consensus.regularizers.points import check_slices, digested, like, points, to_prox, total, weighted_points, weights_of_each
from consensus.regularizers.separable import Separable

if TYPE_CHECKING:
    import cvxpy


@dataclass(frozen=True, eq=False)
class L2(Separable):
    """``r(w) = weight/2 |w|^2`` (ridge, weight decay), or ``sum_k weight_k/2 w_k^2`` with a weight for each parameter.

    Parameters
    ----------
    weight : float or array_like (P,)
        Weight of all parameters, or of each, at least 0: :meth:`by_name` finds the latter by the names of a model's parameters.

    Raises
    ------
    ValueError
        If a weight is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import L2
    >>> L2(0.5).value(np.array([[3.0, 4.0], [0.0, 2.0]]))
    array([6.25, 1.  ])
    >>> L2([0.5, 0.0]).value(np.array([[3.0, 4.0], [0.0, 2.0]]))
    array([2.25, 0.  ])
    """

    weight: float | ArrayLike
    quadratic: bool = field(init=False, repr=False, compare=False)
    squares: np.ndarray | None = field(init=False, repr=False, compare=False)
    smooth = True

    def __post_init__(self) -> None:
        weight, squares = self.weight, None
        if hasattr(weight, "__len__") and not isinstance(weight, str):
            weight = squares = weights_of_each("weight of L2", weight)
        else:
            weight = _checks.number("weight of L2", weight, least=0)
        for name, value in (("weight", weight), ("squares", squares), ("quadratic", squares is None)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}(weight={repr(self.weight) if self.squares is None else digested(self.squares)})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and np.array_equal(self.weight, vars(other)["weight"])

    def __hash__(self) -> int:
        return hash(self.weight if self.squares is None else self.squares.tobytes())

    @classmethod
    def by_name(cls, model: Any, weight: Callable[[str, tuple[int, ...]], float]) -> Self:  # noqa: ANN401
        """Return the regularizer with weights that depend on the names and shapes of a model's parameters.

        Parameters
        ----------
        model : Model
            A model with a ``layout``, as MLP, Linear, ``models.Torch`` and ``models.JAX`` have it.
        weight : callable
            Takes the name of an array of parameters and its shape to its weight, at least 0. Names are those of
            ``module.named_parameters()`` in PyTorch, the path in the pytree in JAX, such as ``"layers.0.kernel"``, and
            ``"0.weight"``, ``"0.bias"``, ``"1.weight"``, ... in MLP.

        Returns
        -------
        L2
            With a weight for each parameter.

        Raises
        ------
        TypeError
            If the model has no ``layout``, or ``weight`` is no function.
        ValueError
            If a weight is negative or no number.

        Examples
        --------
        No decay on vectors, that is on biases and norms:

        >>> import consensus
        >>> model = consensus.MLP([2, 3, 1])
        >>> r = consensus.L2.by_name(model, lambda name, shape: 0.1 if len(shape) > 1 else 0.0)
        >>> r.weight
        array([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0. , 0. , 0. , 0.1, 0.1, 0.1, 0. ])
        """
        layout = getattr(model, "layout", None)
        if layout is None:
            raise TypeError(
                f"model must have a layout, names and shapes of its parameters, and {_checks.shown(model)} has none: give L2 a "
                "weight for each parameter, L2(weights)"
            )
        if not callable(weight):
            raise TypeError(f"weight must be a function (name, shape) -> weight; got {_checks.shown(weight)}")
        each = np.zeros(model.parameters)
        for name, start, shape, _ in layout:
            found = _checks.number(f"weight({name!r}, {shape})", weight(name, shape), least=0)
            each[start : start + math.prod(shape)] = found
        return cls(each)

    @property
    def strong_convexity(self) -> float:
        return float(self._each.min())

    @property
    def curvature_bound(self) -> float:
        """Lipschitz constant of the gradient."""
        return float(self._each.max())

    @property
    def _each(self) -> np.ndarray:
        return np.asarray(self.weight if self.squares is None else self.squares, float)

    def value(self, w: ArrayLike) -> np.ndarray | float:
        if self.squares is None:
            return self._weight / 2 * total(np.square(points("w", w)))
        w = weighted_points("w", w, self.squares, self)
        return total(np.square(w) * like(self.squares / 2, w))

    def gradient(self, w: ArrayLike) -> np.ndarray:
        if self.squares is None:
            return self._weight * points("w", w)
        w = weighted_points("w", w, self.squares, self)
        return np.asarray(like(self.squares, w) * w)

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v if self.squares is None else weighted_points("v", v, self.squares, self), step)
        shrunk = 1 + (self._weight if self.squares is None else self.squares) * step
        return v / (shrunk if type(shrunk) is float else like(shrunk, v))  # a Python float keeps the dtype of v

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        weight = self._weight if self.squares is None else self.squares
        return np.asarray(np.ones_like(v) / like(1 + weight * step, v))

    def split(self, slices: Sequence[slice]) -> Sequence[Regularizer]:
        if self.squares is None:
            return super().split(slices)
        check_slices(slices)
        if slices[-1].stop != len(self.squares):
            raise ValueError(f"slices must cover the {len(self.squares)} coordinates of {self}; got {slices}")
        return [L2(self.squares[part]) for part in slices]

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        if self.squares is None:
            return self._weight / 2 * cp.sum_squares(w)
        return self.squares @ cp.square(w) / 2

    @property
    def _weight(self) -> float:
        """The weight of all parameters."""
        weight: Any = self.weight
        found: float = weight
        return found
