"""The dual of a proximal local problem, by a semismooth Newton method."""

from collections.abc import Callable
from typing import cast

import numpy as np

from consensus.kernels import blas as _blas
from consensus.local.operators import jacobian, rooted_rows, times_root, times_root_transposed
from consensus.local.subproblem import Subproblem
from consensus.local.systems import LARGEST, PASS, batched, conjugate_gradients, factored

_ITERATIONS = 30  # of conjugate gradients, roughly
_SYSTEMS = 8  # that what is formed once should serve
_CHOLESKY, _LU = 2.5 / 3, 5.0  # per cube of the order, in the product's multiply-adds
_CALLS = 5e5  # what a handful of calls costs, in the same


class Systems:
    """The systems of a chunk of agents: of one agent alone, unless they are small; of all agents on a device."""

    def __init__(
        self,
        sub: Subproblem,
        root: np.ndarray,
        forward: Callable[[np.ndarray], np.ndarray],
        backward: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self.sub, self.root, self.forward, self.backward = sub, root, forward, backward
        _, samples, outputs = sub.outputs.shape
        self.n, self.parameters = samples * outputs, sub.w.shape[1]
        self.formed = sub.operator.jacobian is not None
        self.batch = type(root) is not np.ndarray or batched(self.n, self.parameters)
        self.r = sub.regularizer  # with prox_jvp, and maybe prox_slope
        self.diagonal = self.r.prox_slope is not None
        self.product = 5 * samples * self.parameters + 100 * self.n + 250 * self.parameters + _CALLS
        self._rows: np.ndarray | None = None
        self._gram: np.ndarray | None = None

    def solve(self, z: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return delta, in the shape of ``right`` (agents, samples, outputs), with M taken at z (agents, P)."""
        costs = self.costs(z)
        ways = {"rows": self.rows, "gram": self.gram, "columns": self.columns, "iterative": self.iterative}
        way = ways[min(costs, key=lambda name: costs[name])]
        return way(z, right.reshape(len(right), -1)).reshape(right.shape)

    def slopes(self, z: np.ndarray) -> np.ndarray:
        """Return the diagonal (agents, P) of M, where it is diagonal."""
        return cast(np.ndarray, self.r.prox_slope(z, 1 / self.sub.tau))

    def costs(self, z: np.ndarray) -> dict[str, float]:
        """Estimate the costs of the available ways, in multiply-adds."""
        n, P = self.n, self.parameters
        if not self.formed:
            return {"iterative": _ITERATIONS * self.product}
        costs = {}
        form, moving = PASS * n * P, 2 if self.diagonal else 15  # passes over R that a product with M takes
        most = LARGEST // len(z) if type(z) is not np.ndarray else LARGEST  # a device has all agents' at once
        if n * P <= most and n * n <= most:
            once = 0 if self._rows is not None else form / _SYSTEMS
            costs["rows"] = once + n * n * P + _CHOLESKY * n**3 + PASS * (moving * n * P + 3 * n * n) + _CALLS
        whole = self.batch or not self.diagonal
        active = P if whole else int(np.count_nonzero(self.sub.regularizer.active(z, 1 / self.sub.tau)))
        if n * P <= most and most >= P * P:
            once = 0 if self._gram is not None else (form + n * P * P) / _SYSTEMS
            factor = _CHOLESKY if self.diagonal else _LU
            costs["gram"] = once + factor * active**3 + 3 * PASS * active**2 + 2 * self.product + _CALLS
        if self.batch and costs:
            return costs
        costs["iterative"] = _ITERATIONS * self.product
        if self.diagonal and n * active <= LARGEST and not self.batch:
            few = min(n, active)
            costs["columns"] = n * active * (few + 2 * PASS) + _CHOLESKY * few**3 + _CALLS
        return costs

    def rows(self, z: np.ndarray, b: np.ndarray) -> np.ndarray:
        if self._rows is None:
            self._rows = rooted_rows(self.root, jacobian(self.sub.operator))
        r, tau = self.r, self.sub.tau
        if self.diagonal:
            matrix = _blas.squares(self._rows * np.sqrt(self.slopes(z) / tau)[:, None])
        else:
            matrix = r.prox_jvp(z, 1 / tau, self._rows) @ self._rows.swapaxes(1, 2)
            matrix /= tau
        return factored(matrix, 1.0).solve(b)

    def gram(self, z: np.ndarray, b: np.ndarray) -> np.ndarray:
        r, tau, P = self.r, self.sub.tau, self.parameters
        if self._gram is None:
            R = rooted_rows(self.root, jacobian(self.sub.operator))
            self._gram = R.swapaxes(1, 2) @ R
        u = self.backward(b.reshape(self.sub.outputs.shape))
        if not self.diagonal:
            M = np.broadcast_to(np.eye(P, dtype=u.dtype, like=u), self._gram.shape)
            matrix = self._gram @ r.prox_jvp(z, 1 / tau, M)
            np.einsum("ann->an", matrix)[...] += tau
            v = r.prox_jvp(z, 1 / tau, np.linalg.solve(matrix, u[:, :, None])[:, :, 0])
        else:  # with D = M^1/2, M (tau I + R'R M)^-1 = D (tau I + D R'R D)^-1 D
            D, v = np.sqrt(self.slopes(z)), np.zeros_like(u)
            free = slice(None) if self.batch else np.flatnonzero(D[0])
            D = D[:, free]
            matrix = (self._gram if isinstance(free, slice) else self._gram[:, free[:, None], free]) * D[:, None]
            matrix *= D[:, :, None]
            v[:, free] = D * factored(matrix, tau).solve(D * u[:, free])
        return cast(np.ndarray, b - self.forward(v).reshape(b.shape))

    def columns(self, z: np.ndarray, b: np.ndarray) -> np.ndarray:
        tau = self.sub.tau
        columns = np.flatnonzero(self.r.active(z, 1 / tau)[0])
        rows = rooted_rows(self.root, jacobian(self.sub.operator, columns))[0]
        rows *= np.sqrt(self.slopes(z)[:, columns] / tau)
        if len(columns) < self.n:  # (I + Q Q')^-1 = I - Q (I + Q' Q)^-1 Q'
            return np.asarray(b - factored(_blas.squares(rows.T[None]), 1.0).solve(b @ rows) @ rows.T)
        return factored(_blas.squares(rows[None]), 1.0).solve(b)

    def iterative(self, z: np.ndarray, b: np.ndarray) -> np.ndarray:
        r, tau = self.r, self.sub.tau

        def apply(flat: np.ndarray) -> np.ndarray:
            moved = r.prox_jvp(z, 1 / tau, self.backward(flat.reshape(self.sub.outputs.shape)))
            return flat + self.forward(moved).reshape(flat.shape) / tau

        return conjugate_gradients(apply, lambda v: v, b, np.full(len(b), 1e-3, like=b), 10 * _ITERATIONS)[0]


_SUFFICIENT = 1e-4
_HALVINGS = 40
_DROWNED = 5  # steps allowed after the decreases that they promise drown in rounding


def solve_proximal(
    sub: Subproblem, root: np.ndarray, x: np.ndarray, gradient: np.ndarray, part: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise ``1/2 |R d|^2 + gradient . d + tau/2 |d|^2 + r(x + d)`` for every agent, R = L' J; return ``x + d``.

    For a dual vector theta, one number a sample and output,

        p(theta) = prox_{r/tau}(z),     z = x - (gradient + R' theta) / tau
        F(theta) = theta - R (p(theta) - x),

    and F = 0 says that theta = R d. F is the gradient of a convex function, whose generalised Hessian is I + R M R' / tau with
    M the derivative of the prox at z: zero on the coordinates that the prox holds (an L1's zeros, a bound), so that a system
    needs only the others' columns of R. Newton's steps are searched on that convex function.

    ``root`` is L, see :meth:`Subproblem.root`. Each agent stops when the residuals of p in the problem itself
    (:meth:`Subproblem.residual`) are at most ``part`` (agents,) of those of x, and p is no worse than x; or after ``most``
    iterations. Returns p (agents, P), with the prox's exact zeros; the iterations (agents,); and whether an agent stopped for
    the first of these reasons (agents,).

    References
    ----------
    Li, Sun, Toh, "A highly efficient semismooth Newton augmented Lagrangian method for solving Lasso problems", SIAM J.
    Optim. 28(1), 2018, section 3 (tau plays the part of its 1/sigma).
    """
    r, tau, operator = sub.regularizer, sub.tau, sub.operator

    def forward(d: np.ndarray) -> np.ndarray:
        return times_root_transposed(root, operator.jvp(d))

    def backward(theta: np.ndarray) -> np.ndarray:
        return operator.vjp(times_root(root, theta))

    theta, back = np.zeros_like(sub.outputs), np.zeros_like(x)  # back = R' theta
    iterations = np.zeros(len(x), int, like=x)
    running, drowned = np.ones(len(x), bool, like=x), np.zeros(len(x), int, like=x)
    answer, good = np.full_like(x, np.nan), np.zeros(len(x), bool, like=x)
    systems = Systems(sub, root, forward, backward)
    at_x, start = r.value(x), sub.residual(x, gradient)
    for _ in range(most):
        z = x - (gradient + back) / tau
        p = r.prox(z, 1 / tau)
        d = p - x
        image = forward(d)
        F = theta - image
        answer = np.where(running[:, None], p, answer)
        solved, _ = sub.solved(p, gradient + back - backward(F) + tau * d, part, start)
        terms = np.square(image).sum(axis=(1, 2)) / 2, tau / 2 * np.vecdot(d, d), np.vecdot(gradient, d), r.value(p) - at_x
        rises = _sum(*terms) > _rounding(x, gradient, at_x, *terms)  # then d need not be a direction of descent
        good |= running & solved & ~rises
        running &= ~good
        if not running.any():
            break
        change = systems.solve(z, -F)
        slope = backward(change)
        promised = np.vecdot(F.reshape(len(x), -1), change.reshape(len(x), -1))
        length, lost = _line_search(sub, x, gradient, theta, back, change, slope, promised, running)
        theta = theta + length[:, None, None] * change
        back = back + length[:, None] * slope
        iterations += running
        drowned += lost
        running &= drowned < _DROWNED
    return answer, iterations, good


def _line_search(
    sub: Subproblem,
    x: np.ndarray,
    gradient: np.ndarray,
    theta: np.ndarray,
    back: np.ndarray,
    change: np.ndarray,
    slope: np.ndarray,
    promised: np.ndarray,
    running: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return step lengths (agents,) on the convex dual function whose gradient is F, and where that is lost in rounding."""

    def terms(length: np.ndarray) -> tuple[np.ndarray | float, ...]:
        moved = back + length[:, None] * slope
        p = sub.regularizer.prox(x - (gradient + moved) / sub.tau, 1 / sub.tau)
        d = p - x
        square = np.square(theta + length[:, None, None] * change).sum(axis=(1, 2)) / 2
        return square, -np.vecdot(gradient + moved, d), -sub.tau / 2 * np.vecdot(d, d), -sub.regularizer.value(p)

    start = terms(np.zeros(len(x), x.dtype, like=x))
    value, slack = _sum(*start), _rounding(x, gradient, *start)
    length = running.astype(x.dtype)
    searching = running.copy()
    for _ in range(_HALVINGS):
        searching &= ~(_sum(*terms(length)) <= value + _SUFFICIENT * length * promised + slack)
        if not searching.any():
            break
        length = np.where(searching, length / 2, length)
    return length, ~(-promised > slack) | searching


def _sum(*terms: np.ndarray | float) -> np.ndarray:
    """Return the sum (agents,) of terms, in their order."""
    return cast(np.ndarray, sum(terms))


def _rounding(x: np.ndarray, gradient: np.ndarray, *terms: np.ndarray | float) -> np.ndarray:
    """Return the rounding of a sum of terms (agents,) at x, itself rounded: to first order where r holds it, as on a sphere."""
    moved = np.linalg.norm(gradient, axis=1) * np.linalg.norm(x, axis=1)
    return cast(np.ndarray, 10 * np.finfo(x.dtype).eps * (_sum(*map(np.abs, terms)) + moved))
