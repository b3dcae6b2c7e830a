"""A quadratic plus any r with a prox: Newton's method on the dual, whose order is the number of samples."""

import numpy as np

from consensus.local.operators import times_root, times_root_transposed
from consensus.local.semismooth_systems import Systems
from consensus.local.subproblem import Subproblem

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
    iterations = np.zeros(len(x), int)
    running, drowned = np.ones(len(x), bool), np.zeros(len(x), int)
    answer, good = np.full_like(x, np.nan), np.zeros(len(x), bool)
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

    start = terms(np.zeros(len(x), x.dtype))
    value, slack = _sum(*start), _rounding(x, gradient, *start)
    length = running.astype(x.dtype)
    searching = running.copy()
    for _ in range(_HALVINGS):
        searching &= ~(_sum(*terms(length)) <= value + _SUFFICIENT * length * promised + slack)
        if not searching.any():
            break
        length[searching] /= 2
    return length, ~(-promised > slack) | searching


def _sum(*terms: np.ndarray | float) -> np.ndarray:
    """Return the sum (agents,) of terms, in their order."""
    return np.asarray(sum(terms))


def _rounding(x: np.ndarray, gradient: np.ndarray, *terms: np.ndarray | float) -> np.ndarray:
    """Return the rounding of a sum of terms (agents,) at x, itself rounded: to first order where r holds it, as on a sphere."""
    moved = np.linalg.norm(gradient, axis=1) * np.linalg.norm(x, axis=1)
    return np.asarray(10 * np.finfo(x.dtype).eps * (_sum(*map(np.abs, terms)) + moved))
