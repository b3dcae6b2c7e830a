"""Linear systems (J' S J + k I) d = u of a block of agents, three ways.

``n`` samples times outputs, P parameters, S = L L' the samples' curvature, R = L' J, k > 0:

    primal      factor R'R + k I of order P
    dual        factor R R' + k I of order n, by d = (u - R' (k I + R R')^-1 R u) / k; R R' = L' (J J') L needs only the
                model's structured ``gram``, never J
    iterative   conjugate gradients on vjp and jvp, preconditioned by the diagonal

Each is prepared once for a Jacobian, then set to any S and k (Newton's method changes only S), then solves for any u.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from consensus._parallel import CHUNK_BYTES
from consensus.local.operators import rooted_gram, rooted_rows, times_root, times_root_transposed

_REFINEMENTS = 10


@dataclass(frozen=True, eq=False)
class Factors:
    """Cholesky factors of a stack of matrices, one an agent; None where a matrix is not finite or not definite."""

    lower: list

    @classmethod
    def of(cls, matrices, shift):
        """Factor ``M_i + shift I`` for stacks M (agents, n, n), which are overwritten."""
        diagonal = np.einsum("ann->an", matrices)  # a view
        diagonal += shift
        factors = []
        for matrix in matrices:
            try:
                factors.append(np.linalg.cholesky(matrix))  # NumPy's: it lets other threads run
            except np.linalg.LinAlgError:
                factors.append(_shifted(matrix))
        return cls(factors)

    def solve(self, right):
        """``M_i^-1 b_i`` for b (agents, n); rows of NaN where there is no factor."""
        solution = np.full_like(right, np.nan)
        if not right.size:  # of order 0: LAPACK takes none
            return solution
        for agent, factor in enumerate(self.lower):
            if factor is not None:
                potrs = lapack.dpotrs if factor.dtype == np.float64 else lapack.spotrs
                solution[agent] = potrs(factor.T, right[agent], lower=0)[0]
        return solution


def _shifted(matrix):
    """The factor of a matrix that only rounding makes indefinite, with its diagonal raised by as much; None of any other."""
    shift = len(matrix) * np.finfo(matrix.dtype).eps * np.trace(matrix)
    try:
        return np.linalg.cholesky(matrix + shift * np.eye(len(matrix), dtype=matrix.dtype))
    except np.linalg.LinAlgError:  # not finite any more: the run will stop with a DivergenceError
        return None


class Primal:
    """Systems of order P."""

    ready = False  #: whether S and k are set

    def __init__(self, operator):
        self.jacobian = operator.jacobian()
        self.numbers = 2 * self.jacobian[0].size + self.jacobian.shape[2] ** 2  # kept for an agent

    def set(self, root, k):
        self.rooted, self.k = rooted_rows(root, self.jacobian.copy()), k
        matrix = self.rooted.swapaxes(1, 2) @ self.rooted
        self.lost = _lost(matrix, k)
        self.factors = Factors.of(matrix, k)
        self.ready = True

    def solve(self, u, tolerance, most):
        return _refined(self.factors.solve, self._apply, u, tolerance, self.lost)

    def _apply(self, v):
        return ((self.rooted @ v[:, :, None]).swapaxes(1, 2) @ self.rooted)[:, 0] + self.k * v


class Dual:
    """Systems of order n."""

    ready = False

    def __init__(self, operator):
        self.operator, self.gram = operator, operator.gram()
        self.numbers = 2 * self.gram[0].size

    def set(self, root, k):
        self.root, self.k = root, k
        gram = rooted_gram(root, self.gram)
        self.lost = _lost(gram, k)  # R R' far above k: the difference in d cancels, and refinement gives it back
        self.factors = Factors.of(gram, k)
        self.ready = True

    def solve(self, u, tolerance, most):
        return _refined(self._once, lambda v: _apply(self, v), u, tolerance, self.lost)

    def _once(self, u):
        image = times_root_transposed(self.root, self.operator.jvp(u))
        dual = self.factors.solve(image.reshape(len(u), -1)).reshape(image.shape)
        return (u - self.operator.vjp(times_root(self.root, dual))) / self.k


def _lost(matrices, k):
    """What a solution by factors loses to rounding, at most: (agents,)."""
    return np.finfo(matrices.dtype).eps * np.trace(matrices, axis1=1, axis2=2) / k


def _refined(once, apply, u, tolerance, lost):
    """Solve by ``once``, again for what is left where that may be more than ``tolerance``; zero iterations; who is certain."""
    d = once(u)
    wanting = ~(lost <= tolerance)
    certain = ~wanting & np.isfinite(d).all(axis=1)
    size = np.linalg.norm(u, axis=1)
    goal, last = np.maximum(tolerance, 10 * np.finfo(u.dtype).eps) * size, np.inf
    for _ in range(_REFINEMENTS):
        if not wanting.any():
            break
        residual = u - apply(d)
        norms = np.linalg.norm(residual, axis=1)
        certain |= wanting & (norms <= goal)
        wanting &= (norms > goal) & (norms < last / 2)
        last = norms
        d = np.where(wanting[:, None], d + once(residual), d)
    return d, np.zeros(len(u), int), certain


class Iterative:
    """Conjugate gradients: nothing is formed but the diagonal."""

    ready = False
    numbers = 0

    def __init__(self, operator):
        self.operator = operator

    def set(self, root, k):
        self.root, self.k = root, k
        curvature = np.square(root) if root.ndim == 3 else np.square(root).sum(axis=3)  # the diagonal of L L'
        diagonal = getattr(self.operator, "diagonal", None)  # a user's model may have none
        self.diagonal = k + (diagonal(curvature) if diagonal else 0)
        self.ready = True

    def solve(self, u, tolerance, most):
        d, iterations = conjugate_gradients(lambda v: _apply(self, v), lambda v: v / self.diagonal, u, tolerance, most)
        return d, iterations, iterations < most


def _apply(system, v):
    """(J' S J + k I) v."""
    image = times_root_transposed(system.root, system.operator.jvp(v))
    return system.operator.vjp(times_root(system.root, image)) + system.k * v


def conjugate_gradients(apply, precondition, right, tolerance, most):
    """Solve ``A_i x_i = b_i`` for a stack of definite systems, each agent frozen when its own residual is small.

    Parameters
    ----------
    apply, precondition : callable
        (agents, m) -> (agents, m): A x, and an approximate inverse of A.
    right : ndarray (agents, m)
    tolerance : ndarray (agents,)
        Of each residual's norm relative to ``right``'s.
    most : int
        Iterations at most.

    Returns
    -------
    x : ndarray (agents, m)
    iterations : ndarray of int (agents,)

    References
    ----------
    Hestenes, Stiefel, "Methods of conjugate gradients for solving linear systems", J. Res. NBS 49(6), 1952.
    """
    x, residual = np.zeros_like(right), right.copy()
    z = precondition(residual)
    direction, inner = z.copy(), np.vecdot(residual, z)
    goal = tolerance * np.linalg.norm(right, axis=1)
    running = np.linalg.norm(residual, axis=1) > goal
    iterations = np.zeros(len(right), int)
    for _ in range(most):
        if not running.any():
            break
        image = apply(direction)
        # A frozen agent takes steps of length zero, so that its numbers stay as they were.
        length = np.where(running, inner / np.where(running, np.vecdot(direction, image), 1), 0).astype(right.dtype)
        x += length[:, None] * direction
        residual -= length[:, None] * image
        iterations += running
        running &= np.linalg.norm(residual, axis=1) > goal
        z = precondition(residual)
        new = np.vecdot(residual, z)
        direction = np.where(running[:, None], z + (new / np.where(inner != 0, inner, 1))[:, None] * direction, direction)
        inner = np.where(running, new, inner)
    return x, iterations


SYSTEMS = {"primal": Primal, "dual": Dual, "iterative": Iterative}
PASS = 30  # what reading and writing a number once costs, in the multiply-adds of a matrix product
LARGEST = 1 << 27  # numbers in a matrix that is worth forming
_FORMED = 1 << 24  # and in a J that saves passes through the model
_SMALL = 1 << 16  # numbers in an agent's R, and in its matrices, below which agents are worked in batches
_ITERATIONS = 55  # of conjugate gradients, as seen on networks with tau near the loss's scale


class Estimate(NamedTuple):
    """What a local solve should take of one agent: ``operations`` (multiply-adds), and ``numbers`` in its arrays."""

    operations: float
    numbers: int


def batched(n, parameters):
    """Whether proximal problems of these shapes are worked in batches of agents; others one by one."""
    return n * parameters <= _SMALL and min(n, parameters) ** 2 <= _SMALL


def forms_jacobian(problem):
    """Whether local solves take J itself: every product would begin with a pass through a model that cannot share one."""
    model, samples = problem.model, problem.shards.features.shape[1]
    return not hasattr(model, "linearize") and samples * model.outputs * problem.parameters < _FORMED


def estimates(problem, regularizer, columns, dense):
    """What each way should cost an agent of ``problem`` for ``columns`` of its parameters; the cheapest is chosen.

    From shapes alone, so that the choice is the same on every engine; ``experiments.benchmarks.choice`` compares it with the
    clock. ``dense`` says that these columns of J are formed in any case.
    """
    model, loss = problem.model, problem.loss
    samples, features = problem.shards.features.shape[1:]
    n, P = samples * model.outputs, columns
    widths = getattr(model, "widths", (features, model.outputs))
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
    if (dense or hasattr(model, "jacobian")) and max(P * P, n * P) < LARGEST:
        operations = systems * (n * P * P + cholesky * P**3 + PASS * (2 * n * P + 2 * P * P))
        costs["primal"] = Estimate(operations, 2 * n * P + 2 * P * P)
    if (dense or hasattr(model, "gram")) and n * n < LARGEST:
        form = n * n * P if dense else samples**2 * sum(widths[:-1]) + n**2 * sum(widths[1:-1])
        operations = form + 2 * PASS * len(widths) * n**2 + systems * (cholesky * n**3 + 3 * PASS * n**2)
        costs["dual"] = Estimate(operations, 4 * n * n + formed)
    return costs
