"""What an agent takes for the curvature of the network's average cost: a matrix, or few columns, corrected by products."""

from typing import Any, NamedTuple

import numpy as np

from consensus._parallel import for_chunks
from consensus.local.low_rank import low_rank
from consensus.problems import has_model
from consensus.problems.base import BaseProblem
from consensus.regularizers.base import Regularizer
from consensus.solvers.adaptive import gauss_newton

COLUMNS, _NUMBERS = 8, 1 << 18  # directions of a round, and numbers in their products, at most
_DENSE, _ROOM = 1024, 1 << 31  # parameters of a matrix, and bytes of all agents' matrices, at most
_FEW = 64  # columns otherwise
_LOST = 1e-6  # of the largest eigenvalue of O'Z: smaller ones are rounding
_FLOOR = 1e-10  # of the scale, that is added to M before each correction
_LEAST_SCALE = 1e-3  # of the scale at the start


class Matrix(NamedTuple):
    """M as a matrix: fields ``M`` (agents, P, P), in double precision; the ``scale`` (agents,), its trace or what that was."""

    M: np.ndarray
    scale: np.ndarray

    def times(self, d: np.ndarray) -> np.ndarray:
        """M d for d (agents, P)."""
        return (self.M @ d[:, :, None])[:, :, 0]

    def corrected(self, basis: np.ndarray, products: np.ndarray, told: np.ndarray) -> "Matrix":
        """``M - M O (O'M O)^+ O'M + Z (O'Z)^+ Z'`` for the agents that are ``told`` (agents,) of Z: it takes O to Z.

        Parameters
        ----------
        basis, products : ndarray (agents, P, count)
            O, or (P, count) of all agents, and Z.
        """
        M = np.empty_like(self.M)

        def chunk(rows):
            old, Z, own = self.M[rows].copy(), products[rows], basis if basis.ndim == 2 else basis[rows]
            np.einsum("app->ap", old)[...] += _FLOOR * self.scale[rows, None]  # of an indefinite M the update would make worse
            image = old @ own
            taken, given = image @ _root(own, image), Z @ _root(own, Z)
            new = old + given @ given.swapaxes(1, 2) - taken @ taken.swapaxes(1, 2)
            M[rows] = np.where(told[rows, None, None], (new + new.swapaxes(1, 2)) / 2, old)

        P, count = self.M.shape[1], basis.shape[-1]
        for_chunks(chunk, len(M), 4 * self.M[0].nbytes, 6 * P * P * count)
        return Matrix(M, np.maximum(np.einsum("app->a", M), _LEAST_SCALE * self.scale))

    def minimiser(self, tau: np.ndarray, w: np.ndarray, slope: np.ndarray, r: Regularizer | None) -> np.ndarray:
        """The d (agents, P) of least ``slope . d + 1/2 d' M d + tau/2 |d|^2 + r(w + d)``."""
        if r is not None:
            root = np.linalg.cholesky(self.M + (1e-12 * self.scale)[:, None, None] * np.eye(w.shape[1]))
            return low_rank(root, tau, w, slope, r)
        d = np.empty(slope.shape)

        def chunk(rows):
            system = self.M[rows].copy()
            np.einsum("app->ap", system)[...] += tau[rows, None]
            d[rows] = -np.linalg.solve(system, slope[rows, :, None])[:, :, 0]

        P = w.shape[1]
        for_chunks(chunk, len(w), 2 * self.M[0].nbytes, P**3)
        return d.astype(w.dtype)


class Columns(NamedTuple):
    """``M = V V'``: fields V (agents, P, count) and the ``scale`` (agents,), as of :class:`Matrix`."""

    V: np.ndarray
    scale: np.ndarray

    def times(self, d: np.ndarray) -> np.ndarray:
        """M d for d (agents, P)."""
        return (self.V @ (d[:, None, :] @ self.V).swapaxes(1, 2))[:, :, 0]

    def corrected(self, basis: np.ndarray, products: np.ndarray, told: np.ndarray) -> "Columns":
        """As :meth:`Matrix.corrected`: ``V <- [V N, Z (O'Z)^(-1/2)]``, N an orthonormal basis of what is orthogonal to V'O."""
        V, count = np.empty_like(self.V), basis.shape[-1]

        def chunk(rows):
            old, Z, own = self.V[rows], products[rows], basis if basis.ndim == 2 else basis[rows]
            across = np.linalg.qr(np.nan_to_num(old.swapaxes(1, 2) @ own), mode="complete")[0][:, :, count:]
            new = np.concatenate([old @ across, Z @ _root(own, Z)], axis=2)
            V[rows] = np.where(told[rows, None, None], new, old)

        kept = self.V.shape[2]
        for_chunks(chunk, len(V), 2 * V[0].nbytes, 2 * V.shape[1] * kept * kept)
        return Columns(V, np.maximum(np.square(V).sum(axis=(1, 2)), _LEAST_SCALE * self.scale))

    def minimiser(self, tau: np.ndarray, w: np.ndarray, slope: np.ndarray, r: Regularizer | None) -> np.ndarray:
        """As :meth:`Matrix.minimiser`."""
        return low_rank(self.V, tau, w, slope, r)


def at_start(problem: BaseProblem, w: np.ndarray, slope: np.ndarray) -> Matrix | Columns:
    """M at the start: A times the own Gauss-Newton curvature; without a model zero, on a scale by the ``slope`` (agents, P)."""
    agents, P = w.shape
    guessed = np.linalg.norm(slope, axis=1) / (1 + np.linalg.norm(w, axis=1))
    dense = P <= _DENSE and 8 * P * P * problem.network_size <= _ROOM
    none: Any = Matrix(np.zeros((agents, P, P)), guessed) if dense else Columns(np.zeros((agents, P, min(P, _FEW))), guessed)
    if not has_model(problem):
        return none  # type: ignore[no-any-return]
    basis = np.eye(P) if dense else directions(P, min(P, _FEW), -1)
    Z = problem.network_size * gauss_newton.products(problem, w, basis.astype(w.dtype)).astype(float)
    if dense:
        return Matrix((Z + Z.swapaxes(1, 2)) / 2, np.maximum(np.einsum("app->a", Z), _LEAST_SCALE * guessed))
    found = none.corrected(basis, Z, np.ones(agents, bool))
    scale = P / basis.shape[1] * np.einsum("pk,apk->a", basis, Z)
    return Columns(found.V, np.maximum(scale, _LEAST_SCALE * guessed))


def directions(parameters: int, count: int, round: int) -> np.ndarray:
    """Orthonormal O (P, count) of a round, the same for all agents: they draw it by the round's number."""
    basis: np.ndarray = np.linalg.qr(np.random.default_rng(round + 1).standard_normal((parameters, count)))[0]
    return basis


def products(problem: BaseProblem, w: np.ndarray, round: int) -> tuple[np.ndarray, np.ndarray]:
    """The directions O (P, count) of a round, and A times the own Gauss-Newton curvature at w times O, (agents, P, count)."""
    if not has_model(problem):
        return np.zeros((problem.parameters, 0)), np.zeros((*w.shape, 0), w.dtype)
    few = max(1, min(COLUMNS, problem.parameters, _NUMBERS // problem.parameters))
    basis = directions(problem.parameters, few, round).astype(w.dtype)
    return basis, problem.network_size * gauss_newton.products(problem, w, basis)


def _root(basis, products):
    """X (agents, count, count) with X X' the pseudoinverse of O'Z, made symmetric."""
    core = np.nan_to_num(basis.swapaxes(-1, -2) @ products)
    values, vectors = np.linalg.eigh((core + core.swapaxes(1, 2)) / 2)
    kept = values > np.maximum(_LOST * values[:, -1:], np.finfo(float).tiny)
    return vectors * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1)), 0)[:, None]
