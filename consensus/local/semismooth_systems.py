"""Newton's systems on the dual of a proximal problem, ``(I + R M R' / tau) delta = b``, in the way that should be cheapest.

R = L'J (n, P) with n samples times outputs, M the derivative of the prox (P, P), diagonal or not:

    rows       form R; factor the matrix itself, of order n
    gram       form R'R once; ``delta = b - R M (tau I + R'R M)^-1 R' b``, of order P, or of the columns that the prox lets move
    columns    form just these columns of R, every time; factor whichever order is less
    iterative  conjugate gradients on vjp and jvp
"""

from collections.abc import Callable

import numpy as np

from consensus import _blas
from consensus.local.conjugate_gradients import conjugate_gradients
from consensus.local.costs import LARGEST, PASS, batched
from consensus.local.operators import jacobian, method, rooted_rows
from consensus.local.subproblem import Subproblem
from consensus.local.systems import Factors

_ITERATIONS = 30  # of conjugate gradients, roughly
_SYSTEMS = 8  # that what is formed once should serve
_CHOLESKY, _LU = 2.5 / 3, 5.0  # per cube of the order, in the product's multiply-adds
_CALLS = 5e5  # what a handful of calls costs, in the same


class Systems:
    """The systems of a chunk of agents: of one agent alone, unless they are small."""

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
        self.formed = hasattr(sub.operator, "jacobian")
        self.r = sub.regularizer  # with prox_jvp, and maybe prox_slope
        self.diagonal = hasattr(self.r, "prox_slope")
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
        return method(self.r, "prox_slope")(z, 1 / self.sub.tau)

    def costs(self, z: np.ndarray) -> dict[str, float]:
        """Estimate the costs of the available ways, in multiply-adds."""
        n, P = self.n, self.parameters
        if not self.formed:
            return {"iterative": _ITERATIONS * self.product}
        costs = {}
        form, moving = PASS * n * P, 2 if self.diagonal else 15  # passes over R that a product with M takes
        if n * P <= LARGEST and n * n <= LARGEST:
            once = 0 if self._rows is not None else form / _SYSTEMS
            costs["rows"] = once + n * n * P + _CHOLESKY * n**3 + PASS * (moving * n * P + 3 * n * n) + _CALLS
        batch = batched(n, P)
        active = P if batch or not self.diagonal else int(np.count_nonzero(self.sub.regularizer.active(z, 1 / self.sub.tau)))
        if n * P <= LARGEST and P * P <= LARGEST:
            once = 0 if self._gram is not None else (form + n * P * P) / _SYSTEMS
            factor = _CHOLESKY if self.diagonal else _LU
            costs["gram"] = once + factor * active**3 + 3 * PASS * active**2 + 2 * self.product + _CALLS
        if batch:
            return costs
        costs["iterative"] = _ITERATIONS * self.product
        if self.diagonal and n * active <= LARGEST:
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
        return Factors.of(matrix, 1.0).solve(b)

    def gram(self, z: np.ndarray, b: np.ndarray) -> np.ndarray:
        r, tau, P = self.r, self.sub.tau, self.parameters
        if self._gram is None:
            R = rooted_rows(self.root, jacobian(self.sub.operator))
            self._gram = R.swapaxes(1, 2) @ R
        u = self.backward(b.reshape(self.sub.outputs.shape))
        if not self.diagonal:
            M = np.broadcast_to(np.eye(P, dtype=u.dtype), self._gram.shape)
            matrix = self._gram @ r.prox_jvp(z, 1 / tau, M)
            np.einsum("ann->an", matrix)[...] += tau
            v = r.prox_jvp(z, 1 / tau, np.linalg.solve(matrix, u[:, :, None])[:, :, 0])
        else:  # with D = M^1/2, M (tau I + R'R M)^-1 = D (tau I + D R'R D)^-1 D
            D, v = np.sqrt(self.slopes(z)), np.zeros_like(u)
            free = slice(None) if batched(self.n, P) else np.flatnonzero(D[0])
            D = D[:, free]
            matrix = (self._gram if isinstance(free, slice) else self._gram[:, free[:, None], free]) * D[:, None]
            matrix *= D[:, :, None]
            v[:, free] = D * Factors.of(matrix, tau).solve(D * u[:, free])
        return np.asarray(b - self.forward(v).reshape(b.shape))

    def columns(self, z: np.ndarray, b: np.ndarray) -> np.ndarray:
        tau = self.sub.tau
        columns = np.flatnonzero(self.r.active(z, 1 / tau)[0])
        rows = rooted_rows(self.root, jacobian(self.sub.operator, columns))[0]
        rows *= np.sqrt(self.slopes(z)[:, columns] / tau)
        if len(columns) < self.n:  # (I + Q Q')^-1 = I - Q (I + Q' Q)^-1 Q'
            return np.asarray(b - Factors.of(_blas.squares(rows.T[None]), 1.0).solve(b @ rows) @ rows.T)
        return Factors.of(_blas.squares(rows[None]), 1.0).solve(b)

    def iterative(self, z: np.ndarray, b: np.ndarray) -> np.ndarray:
        r, tau = self.r, self.sub.tau

        def apply(flat: np.ndarray) -> np.ndarray:
            moved = r.prox_jvp(z, 1 / tau, self.backward(flat.reshape(self.sub.outputs.shape)))
            return np.asarray(flat + self.forward(moved).reshape(flat.shape) / tau)

        return conjugate_gradients(apply, lambda v: v, b, np.full(len(b), 1e-3), 10 * _ITERATIONS)[0]
