"""Sums over coordinates: norms, and constraints on each coordinate."""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.regularizers.base import Regularizer
from consensus.regularizers.points import (
    check_slices,
    digested,
    like,
    points,
    soft_threshold,
    spread,
    to_prox,
    total,
    weighted_points,
    weights_of_each,
)

if TYPE_CHECKING:
    import cvxpy


class Separable(Regularizer):
    """A sum of one function of each coordinate; the generalised Jacobian of its prox is diagonal.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> class Ceiling(consensus.regularizers.Separable):
    ...     def value(self, w):
    ...         return np.where((w <= 1).all(axis=-1), 0, np.inf).astype(w.dtype)
    ...     def prox(self, v, step):
    ...         return np.minimum(v, 1)
    ...     def prox_slope(self, v, step):
    ...         return np.where(v < 1, 1.0, 0.0)
    >>> v, d = np.array([[0.5, 3.0]]), np.array([[2.0, 2.0]])
    >>> Ceiling().prox(v, 1.0).tolist(), Ceiling().prox_jvp(v, 1.0, d).tolist(), Ceiling().active(v, 1.0).tolist()
    ([[0.5, 1.0]], [[2.0, 0.0]], [[True, False]])
    """

    @abstractmethod
    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        """Return the diagonal of the generalised Jacobian of ``prox(., step)`` at v.

        Parameters
        ----------
        v : ndarray (agents, P), or (P,)
            The points.
        step : float, or ndarray (agents, 1)
            The step, above 0.

        Returns
        -------
        ndarray, the shape of v
            The diagonal.
        """

    def prox_jvp(self, v: np.ndarray, step: float | np.ndarray, d: np.ndarray) -> np.ndarray:
        return cast(np.ndarray, spread(self.prox_slope(v, step), d) * d)

    def active(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        return cast(np.ndarray, self.prox_slope(v, step) != 0)

    def split(self, slices: Sequence[slice]) -> Sequence[Regularizer]:
        check_slices(slices)
        return [self] * len(slices)


@dataclass(frozen=True)
class L1(Separable):
    """``r(w) = weight |w|_1`` (lasso), which sets small coordinates exactly to zero.

    Parameters
    ----------
    weight : float
        Weight, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import L1
    >>> L1(1.0).prox(np.array([3.0, -0.2, -1.5]), step=0.5)
    array([ 2.5,  0. , -1. ])
    """

    weight: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _checks.number("weight of L1", self.weight, least=0))

    def value(self, w: ArrayLike) -> np.ndarray | float:
        return self.weight * total(np.abs(points("w", w)))

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        return soft_threshold(v, self.weight * step)

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        # Without weight, prox is the identity also at zero.
        return cast(np.ndarray, (np.abs(v) > like(self.weight * step, v)) | (self.weight == 0)).astype(v.dtype)

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        return self.weight * cp.norm1(w)


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
        return cast(np.ndarray, like(self.squares, w) * w)

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v if self.squares is None else weighted_points("v", v, self.squares, self), step)
        shrunk = 1 + (self._weight if self.squares is None else self.squares) * step
        return v / (shrunk if type(shrunk) is float else like(shrunk, v))  # a Python float keeps the dtype of v

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        weight = self._weight if self.squares is None else self.squares
        return cast(np.ndarray, np.ones_like(v) / like(1 + weight * step, v))

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
        return cast(float, self.weight)


@dataclass(frozen=True)
class ElasticNet(Separable):
    """``r(w) = l1 |w|_1 + l2/2 |w|^2``, the sum of L1 and L2.

    Parameters
    ----------
    l1, l2 : float
        Weights, at least 0.

    References
    ----------
    Zou, Hastie, "Regularization and variable selection via the elastic net", J. R. Statist. Soc. B 67(2), 2005, eq. (3).

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import ElasticNet
    >>> ElasticNet(l1=1.0, l2=1.0).prox(np.array([3.0, -0.2]), step=1.0)
    array([1., 0.])
    """

    l1: float
    l2: float

    def __post_init__(self) -> None:
        for name in ("l1", "l2"):
            object.__setattr__(self, name, _checks.number(f"{name} of ElasticNet", getattr(self, name), least=0))

    @property
    def strong_convexity(self) -> float:
        return self.l2

    def value(self, w: ArrayLike) -> np.ndarray | float:
        w = points("w", w)
        return self.l1 * total(np.abs(w)) + self.l2 / 2 * total(np.square(w))

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        return cast(np.ndarray, soft_threshold(v, self.l1 * step) / like(1 + self.l2 * step, v))

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        return cast(np.ndarray, L1(self.l1).prox_slope(v, step) / like(1 + self.l2 * step, v))

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        return self.l1 * cp.norm1(w) + self.l2 / 2 * cp.sum_squares(w)


@dataclass(frozen=True)
class WeightedElasticNet(Separable):
    """``r(w) = sum_k l1_k |w_k| + l2_k/2 w_k^2``: coordinates of weight zero, such as biases, are not penalised.

    Parameters
    ----------
    l1, l2 : array_like (P,)
        Weights of the coordinates, at least 0.

    Raises
    ------
    ValueError
        If a weight is negative or not finite, or the two are not of one length.

    References
    ----------
    Zou, "The adaptive lasso and its oracle properties", J. Am. Statist. Assoc. 101(476), 2006, eq. (4), for weights of l1.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.regularizers import WeightedElasticNet
    >>> WeightedElasticNet(l1=[1.0, 1.0, 0.0], l2=[0.0, 1.0, 0.0]).prox(np.array([3.0, 3.0, 3.0]), step=1.0)
    array([2., 1., 3.])
    """

    l1: ArrayLike
    l2: ArrayLike
    smooth: bool = field(init=False, compare=False)
    squares: np.ndarray | None = field(init=False, compare=False)
    _l1: np.ndarray = field(init=False, compare=False)
    _l2: np.ndarray = field(init=False, compare=False)

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)
        for name in ("l1", "l2"):
            weights = weights_of_each(f"{name} of WeightedElasticNet", getattr(self, name))
            put(name, tuple(weights.tolist()))  # arrays can be neither compared nor hashed
            put(f"_{name}", weights)
        if self._l1.shape != self._l2.shape:
            raise ValueError(f"l1 and l2 of WeightedElasticNet must be of one length; got {len(self._l1)} and {len(self._l2)}")
        put("smooth", not self._l1.any())
        put("squares", self._l2 if self.smooth else None)

    def __repr__(self) -> str:
        return f"WeightedElasticNet(l1={digested(self._l1)}, l2={digested(self._l2)})"

    @property
    def strong_convexity(self) -> float:
        return float(self._l2.min())

    @property
    def curvature_bound(self) -> float | None:
        """Lipschitz constant of the gradient, or None if r is not smooth."""
        return float(self._l2.max()) if self.smooth else None

    def value(self, w: ArrayLike) -> np.ndarray | float:
        w = weighted_points("w", w, self._l2, self)
        return total(np.abs(w) * like(self._l1, w) + np.square(w) * like(self._l2 / 2, w))

    def gradient(self, w: ArrayLike) -> np.ndarray:
        w = weighted_points("w", w, self._l2, self)
        if not self.smooth:
            return super().gradient(w)  # which raises
        return cast(np.ndarray, like(self._l2, w) * w)

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(weighted_points("v", v, self._l2, self), step)
        return cast(np.ndarray, soft_threshold(v, self._l1 * step) / like(1 + self._l2 * step, v))

    def prox_slope(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        kept = (np.abs(v) > like(self._l1 * step, v)) | (self._l1 == 0)
        return cast(np.ndarray, kept / like(1 + self._l2 * step, v))

    def split(self, slices: Sequence[slice]) -> Sequence[Regularizer]:
        check_slices(slices)
        if slices[-1].stop != len(self._l1):
            raise ValueError(f"slices must cover the {len(self._l1)} coordinates of {self}; got {slices}")
        return [WeightedElasticNet(self._l1[part], self._l2[part]) for part in slices]

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        return self._l1 @ cp.abs(w) + self._l2 @ cp.square(w) / 2
