"""Linear systems (J' S J + k I) d = u of a block of agents, three ways.

``n`` samples times outputs, P parameters, S = L L' the samples' curvature, R = L' J, k > 0:

    primal      factor R'R + k I of order P
    dual        factor R R' + k I of order n, by d = (u - R' (k I + R R')^-1 R u) / k; R R' = L' (J J') L needs only the
                model's structured ``gram``, never J
    iterative   conjugate gradients on vjp and jvp, preconditioned by the diagonal

Each is prepared once for a Jacobian, then set to any S and k (Newton's method changes only S; a system that is to be set
``once`` keeps nothing to be set again), then solves for any u, for many if it is ``constant``, the same in all rounds.
Where that takes no iterations, nor refinement for a ``tolerance``, ``at_once(tolerance)`` is the function from u to d; else
None.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from consensus import _blas
from consensus.local.conjugate_gradients import conjugate_gradients
from consensus.local.operators import (
    Operator,
    jacobian,
    norms,
    rooted_gram,
    rooted_rows,
    times_root,
    times_root_transposed,
    upper_gram,
)

_REFINEMENTS = 10
_INVERTED = 128  # order up to which matrices are inverted that many right-hand sides will come for


@dataclass(frozen=True, eq=False)
class Factors:
    """Cholesky factors of a stack of matrices, by agent; none where a matrix is not finite or not definite.

    Those of small matrices that are ``constant`` are made into inverses where that loses little: one product for all agents
    takes less than two calls of BLAS for each.
    """

    uppers: dict[int, np.ndarray]
    dtype: np.dtype
    inverses: np.ndarray | None = None

    @classmethod
    def of(cls, matrices: np.ndarray, shift: float, constant: bool = False) -> Self:
        """Factor ``M_i + shift I`` in the place of M (agents, n, n), of which only the upper triangles count."""
        diagonal = np.einsum("ann->an", matrices)  # a view
        # What rounding may take from an eigenvalue; where it may take all there is, a second try needs a copy.
        rounding = len(diagonal.T) * np.finfo(matrices.dtype).eps * diagonal.sum(axis=1)
        diagonal += shift
        factors = [_factor(matrix, loss, 10 * loss < shift) for matrix, loss in zip(matrices, rounding, strict=True)]
        uppers = {agent: factor for agent, factor in enumerate(factors) if factor is not None}
        if not constant or len(diagonal.T) > _INVERTED:
            return cls(uppers, matrices.dtype)
        inverses = np.full_like(matrices, np.nan)
        for agent in np.flatnonzero(rounding < np.sqrt(np.finfo(matrices.dtype).eps) * shift):
            if agent in uppers:
                inverses[agent] = _blas.inverse(uppers.pop(int(agent)))
        return cls(uppers, matrices.dtype, inverses)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return ``M_i^-1 b_i`` for b (agents, n); rows of NaN where there is no factor."""
        if self.inverses is None:
            solution = np.full(right.shape, np.nan, self.dtype)
        else:
            solution = (self.inverses @ right.astype(self.dtype, copy=False)[..., None])[..., 0]
        for agent, factor in self.uppers.items():
            solution[agent] = right[agent]
            _blas.solve(factor, solution[agent])
        return solution.astype(right.dtype, copy=False)


def _factor(matrix: np.ndarray, rounding: float, definite: bool) -> np.ndarray | None:
    """Factor M; if rounding makes it indefinite, with its diagonal raised by the rounding; None if that fails, too."""
    second = None if definite else matrix.copy()
    if _blas.cholesky(matrix):
        return matrix
    if second is None:
        return None
    np.einsum("nn->n", second)[...] += rounding
    return second if _blas.cholesky(second) else None


class System(Protocol):
    """Linear systems of a block of agents: see this module's text."""

    ready: bool

    def __init__(self, operator: Operator, once: bool, constant: bool) -> None: ...

    @staticmethod
    def numbers(n: int, P: int) -> int:
        """Return how many numbers are kept for an agent."""

    @property
    def inverses(self) -> np.ndarray | None:
        """The inverses themselves (agents, P, P), if all agents have one; else None."""

    def set(self, root: np.ndarray, k: float) -> None:
        """Set S by its root L, and k."""

    def at_once(self, tolerance: float) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return the function from u to d, or None."""

    def solve(self, u: np.ndarray, tolerance: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return solutions d (agents, P), iterations (agents,) and which agents' d are certain to be exact enough (agents,)."""


class Primal:
    """Systems of order P."""

    ready = False

    @staticmethod
    def numbers(n: int, P: int) -> int:
        return 2 * n * P + P * P

    def __init__(self, operator: Operator, once: bool, constant: bool) -> None:
        self.jacobian, self.once, self.constant = jacobian(operator), once, constant

    def set(self, root: np.ndarray, k: float) -> None:
        self.rooted, self.k = rooted_rows(root, self.jacobian if self.once else self.jacobian.copy()), k
        matrix = _blas.squares(self.rooted.swapaxes(1, 2))
        self.lost = _lost(matrix, k)
        self.factors = Factors.of(matrix, k, self.constant)
        self.ready = True

    @property
    def inverses(self) -> np.ndarray | None:
        return None if self.factors.uppers else self.factors.inverses

    def at_once(self, tolerance: float) -> Callable[[np.ndarray], np.ndarray] | None:
        return self.factors.solve if (self.lost <= tolerance).all() else None

    def solve(self, u: np.ndarray, tolerance: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _refined(self.factors.solve, self._apply, u, tolerance, self.lost)

    def _apply(self, v: np.ndarray) -> np.ndarray:
        return np.asarray(((self.rooted @ v[:, :, None]).swapaxes(1, 2) @ self.rooted)[:, 0] + self.k * v)


class Dual:
    """Systems of order n."""

    ready, inverses = False, None

    @staticmethod
    def numbers(n: int, P: int) -> int:
        return 2 * n * n

    def __init__(self, operator: Operator, once: bool, constant: bool) -> None:
        self.operator, self.constant = operator, constant
        self.gram = None if once else upper_gram(operator)

    def set(self, root: np.ndarray, k: float) -> None:
        self.root, self.k = root, k
        if self.gram is None:
            gram = upper_gram(self.operator, root)
        else:
            gram = rooted_gram(root, self.gram, np.empty_like(self.gram))
        self.lost = _lost(gram, k)  # R R' far above k: the difference in d cancels, and refinement gives it back
        self.factors = Factors.of(gram, k, self.constant)
        self.ready = True

    def at_once(self, tolerance: float) -> Callable[[np.ndarray], np.ndarray] | None:
        return self._once if (self.lost <= tolerance).all() else None

    def solve(self, u: np.ndarray, tolerance: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return _refined(self._once, lambda v: _apply(self, v), u, tolerance, self.lost)

    def _once(self, u: np.ndarray) -> np.ndarray:
        image = times_root_transposed(self.root, self.operator.jvp(u))
        dual = self.factors.solve(image.reshape(len(u), -1)).reshape(image.shape)
        return np.asarray((u - self.operator.vjp(times_root(self.root, dual))) / self.k)


def _lost(matrices: np.ndarray, k: float) -> np.ndarray:
    """Bound (agents,) the relative error of a solution by factors."""
    return np.asarray(np.finfo(matrices.dtype).eps * np.trace(matrices, axis1=1, axis2=2) / k)


def _refined(
    once: Callable[[np.ndarray], np.ndarray],
    apply: Callable[[np.ndarray], np.ndarray],
    u: np.ndarray,
    tolerance: np.ndarray,
    lost: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve by ``once``, with refinement where the error may exceed ``tolerance``; return d, zeros, and which d are certain."""
    d = once(u)
    enough = lost <= tolerance
    certain = enough & np.isfinite(d.sum(axis=1))
    if enough.all():
        return d, np.zeros(len(u), int), certain
    wanting = ~enough
    size = norms(u)
    goal, last = np.maximum(tolerance, 10 * np.finfo(u.dtype).eps) * size, np.full_like(size, np.inf)
    for _ in range(_REFINEMENTS):
        if not wanting.any():
            break
        residual = u - apply(d)
        size = norms(residual)
        certain |= wanting & (size <= goal)
        wanting &= (size > goal) & (size < last / 2)
        last = size
        d = np.where(wanting[:, None], d + once(residual), d)
    return d, np.zeros(len(u), int), certain


class Iterative:
    """Conjugate gradients: nothing is formed but the diagonal."""

    ready, inverses = False, None

    @staticmethod
    def numbers(n: int, P: int) -> int:
        return 0

    def __init__(self, operator: Operator, once: bool, constant: bool) -> None:
        self.operator = operator

    def set(self, root: np.ndarray, k: float) -> None:
        self.root, self.k = root, k
        curvature = np.square(root) if root.ndim == 3 else np.square(root).sum(axis=3)  # the diagonal of L L'
        diagonal = self.operator.diagonal(curvature) if hasattr(self.operator, "diagonal") else 0  # a user's may have none
        self.diagonal = k + diagonal
        self.ready = True

    def at_once(self, tolerance: float) -> Callable[[np.ndarray], np.ndarray] | None:
        return None

    def solve(self, u: np.ndarray, tolerance: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        d, iterations = conjugate_gradients(lambda v: _apply(self, v), lambda v: v / self.diagonal, u, tolerance, most)
        return d, iterations, iterations < most


def _apply(system: Dual | Iterative, v: np.ndarray) -> np.ndarray:
    """Return (J' S J + k I) v."""
    image = times_root_transposed(system.root, system.operator.jvp(v))
    return system.operator.vjp(times_root(system.root, image)) + system.k * v


SYSTEMS: dict[str, type[System]] = {"primal": Primal, "dual": Dual, "iterative": Iterative}
