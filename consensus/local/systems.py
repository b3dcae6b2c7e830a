"""Linear systems of local problems: what they cost, factors, and conjugate gradients."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import NamedTuple, Protocol, Self, cast

import numpy as np

from consensus._arrays.parallel import CHUNK_BYTES
from consensus.kernels import blas as _blas
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
from consensus.problems.linearizable import Linearizable
from consensus.regularizers.base import Regularizer


def conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray],
    precondition: Callable[[np.ndarray], np.ndarray],
    right: np.ndarray,
    tolerance: np.ndarray,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Solve ``A_i x_i = b_i`` for a stack of definite systems, each agent frozen when its own residual is small.

    ``apply`` and ``precondition``, of (agents, m), multiply by A and by an approximate inverse of A. ``tolerance`` (agents,) is
    of each residual's norm relative to ``right``'s. Returns x (agents, m) and each agent's iterations, at most ``most``. See
    Hestenes, Stiefel, "Methods of conjugate gradients for solving linear systems", J. Res. NBS 49(6), 1952.
    """
    x, residual = np.zeros_like(right), right.copy()
    z = precondition(residual)
    direction, inner = z.copy(), np.vecdot(residual, z)
    goal = tolerance * norms(right)
    running = norms(residual) > goal
    iterations = np.zeros(len(right), int, like=right)
    for _ in range(most):
        if not running.any():
            break
        image = apply(direction)
        # A frozen agent takes steps of length zero, so that its numbers stay as they were.
        length = np.where(running, inner / np.where(running, np.vecdot(direction, image), 1), 0).astype(right.dtype)
        x += length[:, None] * direction
        residual -= length[:, None] * image
        iterations += running
        running &= norms(residual) > goal
        z = precondition(residual)
        new = np.vecdot(residual, z)
        direction = np.where(running[:, None], z + (new / np.where(inner != 0, inner, 1))[:, None] * direction, direction)
        inner = np.where(running, new, inner)
    return x, iterations


PASS = 30  # what reading and writing a number once costs, in the multiply-adds of a matrix product
LARGEST = 1 << 27  # numbers in a matrix that is worth forming
_FORMED = 1 << 24  # and in a J that saves passes through the model
_SMALL = 1 << 16  # numbers in an agent's R, and in its matrices, below which agents are worked in batches
_TOGETHER = 3  # agents that share Python's calls, which take a quarter of the time with 200 samples each, a tenth with 500
_ROOM = 1 << 25  # bytes that these may take
_ITERATIONS = 55  # of conjugate gradients, as seen on networks with tau near the loss's scale


class Estimate(NamedTuple):
    """The estimated cost for one agent: ``operations`` (multiply-adds), and ``numbers`` in its arrays.

    Chunks of up to ``together`` agents may exceed a core's cache.
    """

    operations: float
    numbers: int
    together: int = 1

    def of_agent(self, dtype: np.dtype) -> tuple[int, float, int]:
        """Return ``(bytes, operations, streamed)`` for :func:`consensus._arrays.parallel.for_chunks`."""
        size = self.numbers * dtype.itemsize
        together = max(1, min(self.together, _ROOM // max(1, size)))
        return size, self.operations, max(0, size - CHUNK_BYTES // together) if together > 1 else 0


def batched(n: int, parameters: int) -> bool:
    """Return whether proximal problems of these shapes are solved in batches of agents; others are one by one."""
    return n * parameters <= _SMALL and min(n, parameters) ** 2 <= _SMALL


@singledispatch
def forms_jacobian(problem: Linearizable) -> bool:
    """Return whether local solves take J itself: else every product would begin with a pass through the model."""
    model, samples = problem.model, problem.shards.features.shape[1]
    return model.linearize is None and samples * model.outputs * problem.parameters < _FORMED


@singledispatch  # on a device there are no chunks
def estimates(problem: Linearizable, regularizer: Regularizer, columns: int, dense: bool) -> dict[str, Estimate]:
    """Estimate the cost for an agent of each way to solve for ``columns`` of its parameters.

    From shapes alone, so that the choice is the same on every engine; ``experiments.benchmarks.choice`` compares it with the
    clock. ``dense`` says that these columns of J are formed in any case.
    """
    model, loss = problem.model, problem.loss
    samples, *features = problem.shards.features.shape[1:]
    n, P = samples * model.outputs, columns
    widths = model.widths or (math.prod(features), model.outputs)
    systems = 1 if loss.quadratic else 6  # Newton's method solves several, the first ones roughly
    cholesky = 1.35 / 3  # n^3/3 at three quarters of the product's speed
    iterations = _ITERATIONS * (1 + model.outputs / 12)  # more outputs, more large eigenvalues
    formed = n * P if dense else 0
    product = 4 * n * P if dense else 5 * samples * P + 100 * samples * sum(widths[1:]) + 250 * P + 2.5e6
    costs = {"iterative": Estimate(iterations * (0.7 + 0.3 * systems) * product, 4 * samples * sum(widths) + 8 * P + formed)}
    if not regularizer.quadratic:
        few = min(n, P)
        alone = 0 if batched(n, P) else CHUNK_BYTES  # numbers enough for a chunk of one agent
        return {"iterative": Estimate(10 * systems * (product + n * P * few), max(2 * n * P, alone))}
    if (dense or model.jacobian) and max(P * P, n * P) < LARGEST:
        operations = systems * (n * P * P + cholesky * P**3 + PASS * (2 * n * P + 2 * P * P))
        costs["primal"] = Estimate(operations, 2 * n * P + 2 * P * P, _TOGETHER)
    if (dense or model.gram) and n * n < LARGEST:
        form = n * n * P if dense else samples**2 * sum(widths[:-1]) + n**2 * sum(widths[1:-1])
        operations = form + 2 * PASS * len(widths) * n**2 + systems * (cholesky * n**3 + 3 * PASS * n**2)
        costs["dual"] = Estimate(operations, 4 * n * n + formed, _TOGETHER)
    return costs


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


factored = singledispatch(Factors.of)  # on a device those of all agents are made at once


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
    """Linear systems ``(J' L L' J + k I) d = u`` of a block of agents: J is the Jacobian, L a root of the loss's curvature."""

    ready: bool

    def __init__(self, operator: Operator, once: bool, constant: bool) -> None: ...

    @staticmethod
    def numbers(n: int, P: int) -> int:
        """Return how many numbers are kept for an agent."""

    @property
    def inverses(self) -> np.ndarray | None:
        """The inverses themselves (agents, P, P), if all agents have one; else None."""

    def set(self, root: np.ndarray, k: float) -> None:
        """Set the root L, and k."""

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
        self.lost = lost(matrix, k)
        self.factors = Factors.of(matrix, k, self.constant)
        self.ready = True

    @property
    def inverses(self) -> np.ndarray | None:
        return None if self.factors.uppers else self.factors.inverses

    def at_once(self, tolerance: float) -> Callable[[np.ndarray], np.ndarray] | None:
        return self.factors.solve if (self.lost <= tolerance).all() else None

    def solve(self, u: np.ndarray, tolerance: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return refined(self.factors.solve, self._apply, u, tolerance, self.lost)

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
        self.lost = lost(gram, k)  # R R' far above k: the difference in d cancels, and refinement gives it back
        self.factors = Factors.of(gram, k, self.constant)
        self.ready = True

    def at_once(self, tolerance: float) -> Callable[[np.ndarray], np.ndarray] | None:
        return self._once if (self.lost <= tolerance).all() else None

    def solve(self, u: np.ndarray, tolerance: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return refined(self._once, lambda v: _apply(self, v), u, tolerance, self.lost)

    def _once(self, u: np.ndarray) -> np.ndarray:
        image = times_root_transposed(self.root, self.operator.jvp(u))
        dual = self.factors.solve(image.reshape(len(u), -1)).reshape(image.shape)
        return np.asarray((u - self.operator.vjp(times_root(self.root, dual))) / self.k)


def lost(matrices: np.ndarray, k: float) -> np.ndarray:
    """Bound (agents,) the relative error of a solution by factors."""
    return cast(np.ndarray, np.finfo(matrices.dtype).eps * np.trace(matrices, axis1=1, axis2=2) / k)


def refined(
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
        diagonal = self.operator.diagonal(curvature) if self.operator.diagonal else 0  # a user's may have none
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


def systems(problem: Linearizable) -> dict[str, type[System]]:
    """Return the kinds of systems of a problem: on a device it has its own."""
    return getattr(problem, "systems", SYSTEMS)
