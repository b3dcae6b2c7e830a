"""Accelerated proximal gradient on a chunk of local problems."""

import numpy as np

from consensus.local.subproblem import Subproblem


def accelerated(
    sub: Subproblem, x: np.ndarray, tolerance: float | np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise the subproblems with nothing but products with J and the prox of r.

        x+ = prox_{r/L}(y - grad phi(y) / L),          y+ = x+ + beta (x+ - x)

    phi is all but r. L is doubled until phi lies below its model at x+ (where the difference drowns in rounding, until it is
    no less than phi's mean curvature on the way to x+), and lowered a little after every round. The momentum beta is
    Nesterov's, and starts anew when the step turns against it.

    Parameters and result as for :func:`consensus.local.newton.newton`; needs ``prox`` only, so it serves a regularizer of
    one's own.

    References
    ----------
    Beck, Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems", SIAM J. Imaging Sci.
    2(1), 2009, section 4; O'Donoghue, Candes, "Adaptive restart for accelerated gradient schemes", Found. Comput. Math.
    15, 2015, eq. (13).
    """
    r, tau = sub.regularizer, sub.tau
    agents = len(x)

    def smooth(point: np.ndarray, a: np.ndarray) -> np.ndarray:
        v = point - sub.w
        return np.array([sub.bregman(a), np.vecdot(sub.linear + tau / 2 * v, v)])

    def bend(a: np.ndarray) -> np.ndarray:
        return np.asarray((sub.loss.gradient(sub.outputs + a, sub.targets) - sub.slopes) * sub.weights[:, :, None])

    def slope(point: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.asarray(sub.operator.vjp(bend(a)) + sub.linear + tau * (point - sub.w))

    start = sub.residual(sub.w, sub.linear)
    a = sub.operator.jvp(x - sub.w)
    y, ya, momentum = x, a, np.ones(agents, x.dtype)
    lipschitz = np.full(agents, 2 * tau, x.dtype)
    running, left = np.ones(agents, bool), np.ones(agents, x.dtype)
    iterations = np.zeros(agents, int)
    for _ in range(most):
        gradient, bent = slope(y, ya), bend(ya)
        terms = smooth(y, ya)
        rounding = 1e4 * np.finfo(x.dtype).eps * np.abs(terms).sum(axis=0)
        searching = running.copy()
        for _ in range(60):
            column = lipschitz[:, None]
            new = r.prox(y - gradient / column, 1 / column)
            d = new - y
            image = sub.operator.jvp(d)
            allowed = lipschitz / 2 * np.vecdot(d, d)
            above = (smooth(new, ya + image) - terms).sum(axis=0) - np.vecdot(gradient, d)
            mean = (((bend(ya + image) - bent) * image).sum(axis=(1, 2)) + tau * np.vecdot(d, d)) / 2
            searching &= ~(np.where(allowed > rounding, above, mean) <= allowed)
            if not searching.any():
                break
            lipschitz[searching] *= 2
        new_a = ya + image
        against = np.vecdot(y - new, new - x) > 0
        momentum = np.where(against, 1, momentum)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        beta = np.where(against, 0, (momentum - 1) / following).astype(x.dtype)
        keep = running[:, None]
        y = np.where(keep, new + beta[:, None] * (new - x), y)
        ya = np.where(keep[:, :, None], new_a + beta[:, None, None] * (new_a - a), ya)
        x, a = np.where(keep, new, x), np.where(keep[:, :, None], new_a, a)
        momentum = following.astype(x.dtype)
        lipschitz *= 0.95
        iterations += running
        solved, residual = sub.solved(x, slope(x, a), tolerance, start)
        left = np.where(running, (residual / np.where(start > 0, start, 1)).max(axis=0), left)
        running &= ~solved
        if not running.any():
            break
    return x, iterations, np.where(running, left, 0)
