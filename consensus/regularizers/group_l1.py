"""The sum of Euclidean norms of groups of coordinates."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.regularizers.base import Regularizer
from consensus.regularizers.points import check_slices, like, points, spread, to_prox, total

if TYPE_CHECKING:
    import cvxpy


@dataclass(frozen=True, repr=False)
class GroupL1(Regularizer):
    """``r(w) = weight sum_g sqrt(|g|) |w_g|_2`` over disjoint groups g (group lasso): whole groups become exactly zero.

    Its prox shrinks the norm of each group, ``max(1 - weight sqrt(|g|) step / |v_g|, 0) v_g``.

    Parameters
    ----------
    weight : float
        Weight, at least 0.
    groups : sequence of int arrays
        The coordinates of each group, from 0. Coordinates in no group are not penalised. Kept as a tuple of tuples.
    parameters : int, optional
        Number of coordinates P; if given, points of another length are rejected.

    Raises
    ------
    ValueError
        If a group is empty or no list of coordinates below P, or two groups overlap; in a method, if a point is too short.

    References
    ----------
    Yuan, Lin, "Model selection and estimation in regression with grouped variables", J. R. Statist. Soc. B 68(1), 2006,
    eq. (2.1); Scardapane, Comminiello, Hussain, Uncini, "Group sparse regularization for deep neural networks",
    Neurocomputing 241, 2017, for the groups of a network; Zhang, Zhang, Sun, Toh, "An efficient Hessian based algorithm
    for solving large-scale sparse group Lasso problems", Math. Program. 179, 2020, for the Jacobian of the prox.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus import GroupL1
    >>> r = GroupL1(1.0, [[0, 1, 2, 3], [4]])
    >>> r.prox(np.array([2.0, 2.0, 2.0, 2.0, -0.5, 7.0]), step=1.0)
    array([1., 1., 1., 1., 0., 7.])
    >>> r.value(np.array([[2.0, 2.0, 2.0, 2.0, -0.5, 7.0]]))
    array([8.5])

    >>> import consensus
    >>> GroupL1.of_units(0.1, consensus.MLP([1, 2, 2])).groups
    ((0, 1), (4, 5), (6, 7))
    """

    weight: float
    groups: Sequence[Sequence[int] | np.ndarray]
    parameters: int | None = None
    _shortest: int = field(init=False, compare=False)
    _sizes: np.ndarray = field(init=False, compare=False)
    _starts: np.ndarray = field(init=False, compare=False)
    _roots: np.ndarray = field(init=False, compare=False)
    _order: np.ndarray | slice = field(init=False, compare=False)

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)
        put("weight", _checks.number("weight of GroupL1", self.weight, least=0))
        if self.parameters is not None:
            put("parameters", _checks.count("parameters of GroupL1", self.parameters))
        if not isinstance(self.groups, Iterable) or (isinstance(self.groups, np.ndarray) and self.groups.ndim == 0):
            raise TypeError(f"groups of GroupL1 must be a sequence of lists of coordinates; got {_checks.shown(self.groups)}")
        groups = [_indices(label, group, self.parameters) for label, group in enumerate(self.groups)]
        put("groups", tuple(tuple(group.tolist()) for group in groups))
        order: np.ndarray = np.concatenate([np.empty(0, np.intp), *groups])
        sizes = np.array([len(group) for group in groups], np.intp)
        labels = np.repeat(np.arange(len(groups)), sizes)
        _check_disjoint(order, labels)
        put("_shortest", int(order.max(initial=-1)) + 1)
        put("_sizes", sizes)
        put("_starts", np.cumsum(sizes) - sizes)
        put("_roots", np.sqrt(sizes))
        neighbours = len(order) and (np.diff(order) == 1).all()
        put("_order", slice(int(order[0]), int(order[-1]) + 1) if neighbours else order)  # a view instead of a copy

    def __repr__(self) -> str:
        return f"GroupL1(weight={self.weight}, <{len(self.groups)} groups>, parameters={self.parameters})"

    @classmethod
    def of_inputs(cls, weight: float, model: Any) -> Self:  # noqa: ANN401  # as for _weight_rows
        """Return a regularizer with one group per input of a layered model: a row of its first weight matrix.

        The model does not use an input whose group is zero. Biases are in no group.

        Parameters
        ----------
        weight : float
            Weight, at least 0.
        model : Linear or MLP
            The model.

        Returns
        -------
        GroupL1
            The regularizer.
        """
        return cls(weight, _weight_rows(model)[: model.widths[0]], model.parameters)

    @classmethod
    def of_units(cls, weight: float, model: Any) -> Self:  # noqa: ANN401  # as for _weight_rows
        """Return a regularizer with one group per input and hidden unit of a layered model: a row of a weight matrix.

        Parameters
        ----------
        weight : float
            Weight, at least 0.
        model : Linear or MLP
            The model.

        Returns
        -------
        GroupL1
            The regularizer.
        """
        return cls(weight, _weight_rows(model), model.parameters)

    def value(self, w: ArrayLike) -> np.ndarray | float:
        w = points("w", w)
        return self.weight * total(self._norms(self._grouped(w)) * like(self._roots, w))

    def prox(self, v: ArrayLike, step: float | np.ndarray) -> np.ndarray:
        v, step = to_prox(v, step)
        grouped = self._grouped(v)
        kept = self._each(1 - self._shrinkage(grouped, step)[0])
        p = v.astype(kept.dtype)
        p[..., self._order] = np.where(kept == 0, 0, kept * grouped)
        return p

    def prox_jvp(self, v: np.ndarray, step: float | np.ndarray, d: np.ndarray) -> np.ndarray:
        # On a nonzero group, (1 - c) d + c u u'd with u = v_g / |v_g| and c = weight sqrt(|g|) step / |v_g|.
        grouped, among = self._grouped(v), self._grouped(d)
        shrinkage, norms = self._shrinkage(grouped, step)
        units = spread(grouped / self._each(norms), d)
        along = np.add.reduceat(units * among, self._starts, axis=-1)
        along *= spread(np.where(shrinkage == 1, 0, shrinkage), d)
        result = d.astype(along.dtype)
        result[..., self._order] = self._each(spread(1 - shrinkage, d)) * among + self._each(along) * units
        return result

    def active(self, v: np.ndarray, step: float | np.ndarray) -> np.ndarray:
        active = np.ones(v.shape, bool, like=v)
        active[..., self._order] = self._each(self._shrinkage(self._grouped(v), step)[0] != 1)
        return active

    def split(self, slices: Sequence[slice]) -> Sequence[Regularizer]:
        check_slices(slices)
        starts = np.array([part.start or 0 for part in slices])
        end = slices[-1].stop
        if end < self._shortest or self.parameters not in (None, end):
            raise ValueError(f"slices must cover the {self.parameters or self._shortest} coordinates of {self}; got {slices}")
        parts: list[list[np.ndarray]] = [[] for _ in slices]
        for group in self.groups:
            first, last = np.searchsorted(starts, (group[0], group[-1]), side="right") - 1
            if first != last:
                raise ValueError(
                    f"{self} does not separate over {slices}: its group of coordinates {group[0]} .. {group[-1]} lies in "
                    f"more than one slice, {slices[first]} and {slices[last]}"
                )
            parts[first].append(np.array(group) - starts[first])
        return [GroupL1(self.weight, part, s.stop - start) for part, s, start in zip(parts, slices, starts.tolist())]

    def expression(self, w: cvxpy.Variable) -> cvxpy.Expression:
        import cvxpy as cp

        norms = [np.sqrt(len(group)) * cp.norm2(w[list(group)]) for group in self.groups]
        return self.weight * cp.sum(norms) if norms else cp.Constant(0)

    def _grouped(self, v: np.ndarray) -> np.ndarray:
        """Return the coordinates in groups, group after group."""
        if v.shape[-1] < self._shortest or self.parameters not in (None, v.shape[-1]):
            wanted = self.parameters or f"at least {self._shortest}"
            raise ValueError(f"points of {self} must have {wanted} coordinates; got shape {v.shape}")
        return v[..., self._order] if isinstance(self._order, slice) else np.take(v, self._order, axis=-1)

    def _each(self, x: np.ndarray) -> np.ndarray:
        """Return the entry of each group in ``x`` for each of its coordinates."""
        return np.repeat(x, self._sizes, axis=-1)

    def _norms(self, grouped: np.ndarray) -> np.ndarray:
        return np.sqrt(np.add.reduceat(np.square(grouped), self._starts, axis=-1))

    def _shrinkage(self, grouped: np.ndarray, step: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the relative decrease of each group's norm, one if it becomes zero; and the norm, or one if that is zero."""
        norms, widths = self._norms(grouped), like(self.weight * step * self._roots, grouped)
        zero = (norms <= widths) & (widths > 0)  # without weight, prox is the identity also at zero
        norms[norms == 0] = 1
        return np.where(zero, 1, widths / norms), norms


def _indices(label: int, group: Sequence[int] | np.ndarray, parameters: int | None) -> np.ndarray:
    """Return the coordinates of a group as a sorted array."""
    indices = np.asarray(group)
    most = np.inf if parameters is None else parameters - 1
    if indices.ndim != 1 or indices.size == 0 or indices.dtype.kind not in "iu" or indices.min() < 0 or indices.max() > most:
        allowed = "" if parameters is None else f" and <= {most}"
        raise ValueError(f"groups[{label}] of GroupL1 must be a non-empty list of whole numbers >= 0{allowed}; got {group!r}")
    return np.sort(indices.astype(np.intp))


def _check_disjoint(order: np.ndarray, labels: np.ndarray) -> None:
    ranks = np.argsort(order, kind="stable")
    again = np.flatnonzero(np.diff(order[ranks]) == 0)
    if again.size:
        one, other = labels[ranks[again[0] : again[0] + 2]]
        raise ValueError(
            f"groups of GroupL1 must be disjoint; coordinate {order[ranks[again[0]]]} is in groups[{one}] and in "
            f"groups[{other}]"
        )


def _weight_rows(model: Any) -> list[np.ndarray]:  # noqa: ANN401  # any model with widths and bias
    """Return the coordinates of each row of each W of a layered model, layer after layer."""
    widths, bias = getattr(model, "widths", None), getattr(model, "bias", None)
    if widths is None or bias is None:
        raise TypeError(f"groups are those of a model with widths and bias, as consensus.MLP([13, 20, 1]) has; got {model!r}")
    start, rows = 0, list[np.ndarray]()
    for inputs, outputs in itertools.pairwise(widths):
        rows.extend(start + np.arange(inputs * outputs).reshape(inputs, outputs))
        start += (inputs + bool(bias)) * outputs
    if start != model.parameters:
        raise ValueError(f"{model!r} must have the {start} parameters of its widths {tuple(widths)}; it has {model.parameters}")
    return rows
