"""A quadratic plus any r with a prox: Newton's method on the dual, whose order is the number of samples."""

import numpy as np

from consensus.local.linear import Factors, conjugate_gradients
from consensus.local.operators import rooted_rows, times_root, times_root_transposed

_SUFFICIENT = 1e-4
_HALVINGS = 40
_DROWNED = 5  # steps allowed after the decreases that they promise drown in rounding
_SMALL = 1 << 16  # numbers in an agent's R below which a batch of dense systems is fastest
_ITERATIONS = 30  # of conjugate gradients, roughly, where R is not formed


def solve_proximal(sub, root, x, gradient, goal, most):
    """Minimise ``1/2 |R d|^2 + gradient . d + tau/2 |d|^2 + r(x + d)`` for every agent, R = L' J; return ``x + d``.

    For a dual vector theta, one number a sample and output,

        p(theta) = prox_{r/tau}(z),     z = x - (gradient + R' theta) / tau
        F(theta) = theta - R (p(theta) - x),

    and F = 0 says that theta = R d. F is the gradient of a convex function, whose generalised Hessian is
    I + R M R' / tau with M the derivative of the prox at z: zero on the coordinates that the prox holds (an L1's zeros, a
    bound), so that only the others' columns of R are formed. Newton's steps are searched on that convex function.

    Parameters
    ----------
    sub : Subproblem
    root : ndarray
        L, see :meth:`Subproblem.root`.
    x, gradient : ndarray (agents, P)
    goal : ndarray (agents,)
        Each agent stops when ``|p - prox_{r/tau}(x - (gradient + R' R d) / tau)|``, the residual of p in the problem itself,
        is at most this, and p is no worse than x.
    most : int

    Returns
    -------
    p : ndarray (agents, P)
        Has the prox's exact zeros.
    iterations : ndarray of int (agents,)

    References
    ----------
    Li, Sun, Toh, "A highly efficient semismooth Newton augmented Lagrangian method for solving Lasso problems", SIAM J.
    Optim. 28(1), 2018, section 3 (tau plays the part of its 1/sigma).
    """
    r, tau, operator = sub.regularizer, sub.tau, sub.operator

    def forward(d):
        return times_root_transposed(root, operator.jvp(d))

    def backward(theta):
        return operator.vjp(times_root(root, theta))

    theta, back = np.zeros_like(sub.outputs), np.zeros_like(x)  # back = R' theta
    iterations = np.zeros(len(x), int)
    running, drowned = np.ones(len(x), bool), np.zeros(len(x), int)
    answer = np.full_like(x, np.nan)
    hessian = _Hessian(sub, root, forward, backward)
    at_x = r.value(x)
    for _ in range(most):
        z = x - (gradient + back) / tau
        p = r.prox(z, 1 / tau)
        d = p - x
        image = forward(d)
        F = theta - image
        exact = r.prox(z + backward(F) / tau, 1 / tau)
        answer = np.where(running[:, None], p, answer)
        terms = np.square(image).sum(axis=(1, 2)) / 2, tau / 2 * np.vecdot(d, d), np.vecdot(gradient, d), r.value(p) - at_x
        rises = sum(terms) > _rounding(x, gradient, at_x, *terms)  # then d need not be a direction of descent
        running &= rises | ~(np.linalg.norm(p - exact, axis=1) <= goal)
        if not running.any():
            break
        change = hessian.solve(z, -F)
        slope = backward(change)
        promised = np.vecdot(F.reshape(len(x), -1), change.reshape(len(x), -1))
        length, lost = _line_search(sub, x, gradient, theta, back, change, slope, promised, running)
        theta = theta + length[:, None, None] * change
        back = back + length[:, None] * slope
        iterations += running
        drowned += lost
        running &= drowned < _DROWNED
    return answer, iterations


def _line_search(sub, x, gradient, theta, back, change, slope, promised, running):
    """Step lengths (agents,) on the convex dual function whose gradient is F; where what they promise is mere rounding."""

    def terms(length):
        moved = back + length[:, None] * slope
        p = sub.regularizer.prox(x - (gradient + moved) / sub.tau, 1 / sub.tau)
        d = p - x
        square = np.square(theta + length[:, None, None] * change).sum(axis=(1, 2)) / 2
        return square, -np.vecdot(gradient + moved, d), -sub.tau / 2 * np.vecdot(d, d), -sub.regularizer.value(p)

    start = terms(np.zeros(len(x), x.dtype))
    value, slack = sum(start), _rounding(x, gradient, *start)
    length = running.astype(x.dtype)
    searching = running.copy()
    for _ in range(_HALVINGS):
        searching &= ~(sum(terms(length)) <= value + _SUFFICIENT * length * promised + slack)
        if not searching.any():
            break
        length[searching] /= 2
    return length, ~(-promised > slack)


def _rounding(x, gradient, *terms):
    """Of a sum of terms (agents,) at x, which itself is rounded: to first order where r holds it, as on a sphere."""
    moved = np.linalg.norm(gradient, axis=1) * np.linalg.norm(x, axis=1)
    return 10 * np.finfo(x.dtype).eps * (sum(map(np.abs, terms)) + moved)


class _Hessian:
    """Systems (I + R M R' / tau) delta = b, in the cheapest of three ways; each depends on its own agent alone."""

    def __init__(self, sub, root, forward, backward):
        self.sub, self.root, self.forward, self.backward = sub, root, forward, backward
        _, samples, outputs = sub.outputs.shape
        self.n, self.parameters = samples * outputs, sub.w.shape[1]
        self.small = hasattr(sub.operator, "jacobian") and self.n * self.parameters <= _SMALL
        self.rows = rooted_rows(root, sub.operator.jacobian()) if self.small else None
        self.product = 5 * samples * self.parameters + 250 * self.parameters + 100 * self.n  # as linear.cheapest counts

    def solve(self, z, right):
        if self.small:
            moved = self.sub.regularizer.prox_jvp(z, 1 / self.sub.tau, self.rows)
            matrix = moved @ self.rows.swapaxes(1, 2)
            matrix /= self.sub.tau
            return Factors.of(matrix, 1.0).solve(right.reshape(len(right), -1)).reshape(right.shape)
        return self._columns(z, right)

    def _columns(self, z, right):
        """One agent: form only the columns of R that the prox lets move, or none."""
        r, tau, n = self.sub.regularizer, self.sub.tau, self.n
        columns = np.flatnonzero(r.active(z, 1 / tau)[0])
        few = min(n, len(columns))
        formed = n * len(columns) * (few + 60) + few**3
        if not (hasattr(r, "prox_slope") and hasattr(self.sub.operator, "jacobian")) or formed > _ITERATIONS * self.product:
            return self._iterate(z, right)
        rows = rooted_rows(self.root, self.sub.operator.jacobian(columns))[0]
        rows *= np.sqrt(r.prox_slope(z, 1 / tau)[:, columns] / tau)
        b = right.reshape(1, -1)
        if len(columns) < n:  # (I + Q Q')^-1 = I - Q (I + Q' Q)^-1 Q'
            factors = Factors.of((rows.T @ rows)[None], 1.0)
            return (b - factors.solve(b @ rows) @ rows.T).reshape(right.shape)
        return Factors.of((rows @ rows.T)[None], 1.0).solve(b).reshape(right.shape)

    def _iterate(self, z, right):
        r, tau = self.sub.regularizer, self.sub.tau

        def apply(flat):
            theta = flat.reshape(right.shape)
            moved = r.prox_jvp(z, 1 / tau, self.backward(theta))
            return flat + self.forward(moved).reshape(flat.shape) / tau

        flat = right.reshape(len(right), -1)
        solution, _ = conjugate_gradients(apply, lambda v: v, flat, np.full(len(flat), 1e-3), 10 * _ITERATIONS)
        return solution.reshape(right.shape)
