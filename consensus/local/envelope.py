"""Proximal local problems by the forward-backward envelope, and by accelerated steps."""

from typing import cast

import numpy as np

from consensus.local.operators import jacobian, rooted_rows, times_root, times_root_transposed
from consensus.local.subproblem import Subproblem
from consensus.local.systems import conjugate_gradients, factored
from consensus.regularizers.base import Regularizer


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
        return np.array([sub.bregman(a), np.vecdot(sub.linear + tau / 2 * v, v)], like=v)

    start = sub.residual(sub.w, sub.linear)
    a = sub.operator.jvp(x - sub.w)
    y, ya, momentum = x, a, np.ones(agents, x.dtype, like=x)
    lipschitz = np.full(agents, 2 * tau, x.dtype, like=x)
    running, left = np.ones(agents, bool, like=x), np.ones(agents, x.dtype, like=x)
    iterations = np.zeros(agents, int, like=x)
    for _ in range(most):
        gradient, bent = sub.gradient(y, ya), sub.bend(ya)
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
            mean = (((sub.bend(ya + image) - bent) * image).sum(axis=(1, 2)) + tau * np.vecdot(d, d)) / 2
            searching &= ~(np.where(allowed > rounding, above, mean) <= allowed)
            if not searching.any():
                break
            lipschitz = np.where(searching, 2 * lipschitz, lipschitz)
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
        lipschitz = 0.95 * lipschitz
        iterations += running
        solved, residual = sub.solved(x, sub.gradient(x, a), tolerance, start)
        left = np.where(running, (residual / np.where(start > 0, start, 1)).max(axis=0), left)
        running &= ~solved
        if not running.any():
            break
    return x, iterations, np.where(running, left, 0)


_SUFFICIENT = 1e-4
_HALVINGS = 40
_DROWNED = 3  # steps allowed after the decreases that they promise drown in rounding
_FORMED = 1 << 24  # numbers in R that is worth forming
_DENSE = 2000  # order of systems that are solved by factors
_REFINEMENTS = 3
_PRODUCTS = 2000  # of conjugate gradients, at most


def solve_by_envelope(
    sub: Subproblem, root: np.ndarray, x: np.ndarray, gradient: np.ndarray, part: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise ``q(d) + r(x + d)``, ``q(d) = 1/2 |R d|^2 + gradient . d + tau/2 |d|^2``, for one agent; return ``x + d``.

    For badly scaled problems. The dual of :func:`consensus.local.semismooth.solve_proximal` finds a point from differences
    of numbers over tau; where these are rounding, this one works at the scale c of the curvature instead:

        p(d) = prox_{r/c}(x + d - grad q(d) / c),     G(d) = x + d - p(d),           c above the norm of H = R'R + tau I

        phi(d) = q(d) - grad q(d) . G + c/2 |G|^2 + r(p)

    phi is convex, lies between ``q + r`` at x + d and at p, and has gradient ``(c I - H) G``. Newton's direction solves
    ``(I - M + M H / c) delta = -G``, with M the derivative of the prox: on the coordinates that the prox holds, delta = -G; for
    the others it is a system in their columns of H alone.

    Parameters and result as there.

    References
    ----------
    Patrinos, Bemporad, "Proximal Newton methods for convex composite optimization", CDC 2013, eqs. (7), (10), Algorithm 1;
    Themelis, Stella, Patrinos, "Forward-backward envelope for the sum of two nonconvex functions", SIAM J. Optim. 28(3), 2018.
    """
    r, hessian = sub.regularizer, _Hessian(sub, root)
    c = hessian.norm
    start, x, gradient = sub.residual(x, gradient), x[0], gradient[0]
    d, drowned = np.zeros_like(x), 0
    for iteration in range(most + 1):
        moved = hessian @ d
        slope = gradient + moved
        z = x + d - slope / c
        p = r.prox(z[None], 1 / c)[0]
        G = x + d - p
        solved, _ = sub.solved(p[None], (gradient + hessian @ (p - x))[None], part, start)
        if solved[0] or drowned == _DROWNED or iteration == most or not np.isfinite(G).all():
            break
        step = hessian.direction(z, G)
        image = hessian @ step
        falls = c * (G @ step) - G @ image  # grad phi . step
        if not falls < 0:
            step, image = -G, -(hessian @ G)
        length, lost = _line_search(r, x, gradient, c, d, moved, step, image)
        drowned += lost
        d = d + length * step
    return p[None], np.full(1, iteration, like=p), solved


def _line_search(
    r: Regularizer,
    x: np.ndarray,
    gradient: np.ndarray,
    c: float,
    d: np.ndarray,
    moved: np.ndarray,
    step: np.ndarray,
    image: np.ndarray,
) -> tuple[float, bool]:
    """Return the first of 1, 1/2, ... with enough decrease of the envelope, and whether rounding hides it."""

    def envelope(length: float) -> tuple[float, float, float]:
        at, there = d + length * step, moved + length * image
        slope = gradient + there
        p = r.prox((x + at - slope / c)[None], 1 / c)
        G = x + at - p[0]
        terms = np.array([gradient @ at, at @ there / 2, -slope @ G, c / 2 * G @ G, np.sum(r.value(p))], like=at)
        return terms.sum(), np.abs(terms).sum(), c * (G @ step) - G @ image

    value, size, falls = envelope(0.0)
    slack = 10 * np.finfo(x.dtype).eps * size
    for halving in range(_HALVINGS):
        length = 0.5**halving
        if envelope(length)[0] <= value + _SUFFICIENT * length * falls + slack:
            return length, -falls <= slack
    return length, True


class _Hessian:
    """H = R'R + tau I of one agent, and systems in it; R is formed if it is not too large."""

    def __init__(self, sub: Subproblem, root: np.ndarray) -> None:
        self.sub, self.root, self.tau = sub, root, sub.tau
        _, samples, outputs = sub.outputs.shape
        self.n, self.parameters = samples * outputs, sub.w.shape[1]
        formed = sub.operator.jacobian and self.n * self.parameters <= _FORMED
        self.R = rooted_rows(root, jacobian(sub.operator))[0] if formed else None
        self.norm = float(sub.bound[0])
        if self.R is not None and min(self.R.shape) <= _DENSE:
            gram = self.R @ self.R.T if self.n <= self.parameters else self.R.T @ self.R
            self.norm = float(np.linalg.eigvalsh(gram)[-1]) + self.tau
        self.norm *= 1.05

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        return self._forth_and_back(v) + self.tau * v

    def _forth_and_back(self, v: np.ndarray) -> np.ndarray:
        if self.R is not None:
            return cast(np.ndarray, self.R.T @ (self.R @ v))
        image = times_root_transposed(self.root, self.sub.operator.jvp(v[None]))
        return cast(np.ndarray, self.sub.operator.vjp(times_root(self.root, image))[0])

    def direction(self, z: np.ndarray, G: np.ndarray) -> np.ndarray:
        """Solve ``(I - M + M H / c) delta = -G`` for delta."""
        r, c = self.sub.regularizer, self.norm
        if r.prox_slope:
            return self._free(r.prox_slope(z[None], 1 / c)[0], G)
        if self.R is not None and self.parameters <= _DENSE:
            identity = np.eye(self.parameters, like=G)
            M, H = r.prox_jvp(z[None], 1 / c, identity[None])[0], self.R.T @ self.R + self.tau * identity
            return np.linalg.solve(identity - M + M @ H / c, -G)

        def held(v: np.ndarray) -> np.ndarray:
            return cast(np.ndarray, r.prox_jvp(z[None], 1 / c, v[None])[0])

        def rest(v: np.ndarray) -> np.ndarray:  # I - H / c
            return v - (self @ v) / c

        def apply(q: np.ndarray) -> np.ndarray:
            return held(q[0] - rest(held(q[0])))[None]

        q, _ = conjugate_gradients(apply, lambda v: v, -held(rest(G))[None], np.full(1, 1e-6, like=G), _PRODUCTS)
        return cast(np.ndarray, held(q[0]) - G)

    def _free(self, slopes: np.ndarray, G: np.ndarray) -> np.ndarray:
        """If M is diagonal: solve the positive definite system restricted to the free coordinates."""
        free = slopes > 0
        delta = np.where(free, 0, -G)
        diagonal = self.tau + self.norm * (1 / slopes[free] - 1)
        right = (-self.norm * G)[free] / slopes[free] - self._forth_and_back(delta)[free]
        columns = None if self.R is None else self.R[:, free]
        if columns is None or min(columns.shape) > _DENSE:

            def apply(v: np.ndarray) -> np.ndarray:
                whole = np.zeros_like(G)
                whole[free] = v[0]
                return cast(np.ndarray, self._forth_and_back(whole)[free] + diagonal * v[0])[None]

            solution, _ = conjugate_gradients(apply, lambda v: v, right[None], np.full(1, 1e-6, like=G), _PRODUCTS)
            delta[free] = solution[0]
            return delta
        direct = columns.shape[1] <= self.n
        if direct:
            factors = factored((columns.T @ columns + np.diag(diagonal))[None], 0.0)
        else:  # by the Woodbury identity, of order n
            factors = factored(((columns / diagonal) @ columns.T)[None], 1.0)

        def solve(b: np.ndarray) -> np.ndarray:
            if direct:
                return cast(np.ndarray, factors.solve(b[None])[0])
            return cast(np.ndarray, (b - factors.solve((columns @ (b / diagonal))[None])[0] @ columns) / diagonal)

        solution = solve(right)
        for _ in range(_REFINEMENTS):
            solution = solution + solve(right - (columns @ solution) @ columns - diagonal * solution)
        delta[free] = solution
        return delta
