"""Quadratic costs of the agents' own variables, in boxes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus._arrays.digest import digest
from consensus.coupled.box import minimise_in_box
from consensus.coupled.costs import Costs, Rows

if TYPE_CHECKING:
    from jaxtyping import Float


class QuadraticCosts(Costs):
    """Costs ``f_i(x_i) = 1/2 x_i' Q_i x_i + q_i' x_i`` of the agents' own variables in boxes ``lower_i <= x_i <= upper_i``.

    For :class:`consensus.problems.Coupled`. Agents may have different numbers n_i of variables.

    Parameters
    ----------
    Q : sequence of array_like (n_i, n_i) or (n_i,)
        Symmetric positive definite matrices, or their diagonals.
    q : sequence of array_like (n_i,)
        Linear terms.
    lower, upper : float, or sequence of float or array_like (n_i,)
        Bounds, by default none.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit each other, a matrix is not positive definite, or a lower bound is above the upper one.

    Examples
    --------
    >>> from consensus.problems import QuadraticCosts
    >>> QuadraticCosts([[1.0], [2.0, 4.0]], [[0.0], [1.0, 1.0]], lower=0.0, upper=5.0)
    QuadraticCosts(2 agents, 1 to 2 variables each)
    """

    def __init__(
        self,
        Q: Sequence[ArrayLike],
        q: Sequence[ArrayLike],
        lower: float | Sequence[ArrayLike] = -np.inf,
        upper: float | Sequence[ArrayLike] = np.inf,
    ) -> None:
        linear = [_checks.floats(f"q[{agent}]", row) for agent, row in enumerate(q)]
        if len(linear) != len(Q) or not linear:
            raise ValueError(f"Q and q must have an entry for each agent; got {len(Q)} and {len(linear)}")
        matrices = [_square(agent, matrix, row) for agent, (matrix, row) in enumerate(zip(Q, linear, strict=True))]
        self.sizes = np.array([len(row) for row in linear])
        size = int(self.sizes.max())
        bounds = [_bounds(name, value, self.sizes) for name, value in (("lower", lower), ("upper", upper))]
        for agent, (low, high) in enumerate(zip(*bounds, strict=True)):
            if not (low <= high).all():
                raise ValueError(f"lower must be at most upper; agent {agent} has {low.tolist()} and {high.tolist()}")
        # Padding: variables that are zero, with curvature one.
        self._Q = np.tile(np.eye(size), (len(linear), 1, 1))
        self._q, self._lower, self._upper = (np.zeros((len(linear), size)) for _ in range(3))
        for agent, n in enumerate(self.sizes):
            self._Q[agent, :n, :n], self._q[agent, :n] = matrices[agent], linear[agent]
            self._lower[agent, :n], self._upper[agent, :n] = bounds[0][agent], bounds[1][agent]
        least = np.linalg.eigvalsh(self._Q)[:, 0]
        if (least <= 0).any():
            agent = int(least.argmin())
            raise ValueError(f"Q[{agent}] must be positive definite; its least eigenvalue is {least[agent]:.3g}")
        self.strong_convexity = least

    def __repr__(self) -> str:
        return f"QuadraticCosts({len(self.sizes)} agents, {_range(self.sizes)} each)"

    def restrict(self, rows: np.ndarray | slice) -> Self:
        block = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(block, name, value[rows])
        return block

    def with_slack(self, count: int) -> Self:
        wide = copy.copy(self)
        wide.sizes, wide.strong_convexity = self.sizes + count, np.zeros(len(self.sizes))
        size, tail = self._Q.shape[1], (len(self.sizes), count)
        wide._Q = np.zeros((len(self.sizes), size + count, size + count))
        wide._Q[:, :size, :size] = self._Q
        wide._q, wide._lower = (np.hstack([part, np.zeros(tail)]) for part in (self._q, self._lower))
        wide._upper = np.hstack([self._upper, np.zeros(tail)])
        for agent, n in enumerate(self.sizes):  # slack comes at once after x_i, padding last
            wide._upper[agent, n : n + count] = np.inf
            wide._Q[agent, range(n, size), range(n, size)] = 0.0
            wide._Q[agent, range(n + count, size + count), range(n + count, size + count)] = 1.0
        return wide

    def value(self, x: Rows) -> Float[np.ndarray, " agents"]:
        values: np.ndarray = (x * (np.matmul(self._Q, x[:, :, None])[:, :, 0] / 2 + self._q)).sum(axis=1)
        return values

    def minimise(self, slope: Rows, root: Float[np.ndarray, "agents m n"] | None, start: Rows) -> Rows:
        H = self._Q if root is None else self._Q + np.matmul(root.swapaxes(1, 2), root)
        return minimise_in_box(H, self._q + slope, self._lower, self._upper, start)

    def digests(self) -> list[str]:
        parts = (self._Q, self._q, self._lower, self._upper)
        return [digest(*(part[agent] for part in parts)) for agent in range(len(self.sizes))]


def _square(agent: int, matrix: ArrayLike, row: np.ndarray) -> np.ndarray:
    found = _checks.floats(f"Q[{agent}]", matrix)
    found = np.diag(found) if found.ndim == 1 else found
    if row.ndim != 1 or found.shape != (len(row), len(row)):
        raise ValueError(
            f"Q[{agent}] must have shape (n, n) or (n,) for q[{agent}] of shape (n,); got {np.shape(matrix)}, {row.shape}"
        )
    if not np.allclose(found, found.T, rtol=1e-12, atol=0):
        raise ValueError(f"Q[{agent}] must be symmetric; got {_checks.shown(matrix)}")
    return found


def _bounds(name: str, value: float | Sequence[ArrayLike], sizes: np.ndarray) -> list[np.ndarray]:
    given = [value] * len(sizes) if np.ndim(value) == 0 else list(value)  # type: ignore[arg-type]  # a sequence if not a number
    if len(given) != len(sizes):
        raise ValueError(f"{name} must be a number, or have an entry for each of {len(sizes)} agents; got {len(given)}")
    found = []
    for agent, (one, n) in enumerate(zip(given, sizes, strict=True)):
        bound = np.asarray(one, float)
        if bound.shape not in ((), (n,)) or np.isnan(bound).any():
            raise ValueError(f"{name}[{agent}] must be a number or {n} of them; got {_checks.shown(one)}")
        found.append(np.broadcast_to(bound, (n,)))
    return found


def _range(sizes: np.ndarray) -> str:
    least, most = int(sizes.min()), int(sizes.max())
    return f"{least} variable{'s' * (least != 1)}" if least == most else f"{least} to {most} variables"
