"""An agent's model of the curvature of the network's average cost: few columns, corrected by products."""

from typing import NamedTuple

import numpy as np

from consensus._parallel import for_chunks
from consensus.problems import has_model
from consensus.problems.base import BaseProblem
from consensus.solvers.adaptive import gauss_newton

DIRECTIONS, _NUMBERS = 8, 1 << 18  # of a round, and numbers in their products, at most
COLUMNS = 64  # of V, at most
_LOST = 1e-6  # of the largest eigenvalue of O'Z: smaller ones are rounding
_LEAST_SCALE = 1e-3  # of the trace at the start
GUESSED = 25.0  # the scale without a model over the guess: the first step is a tenth as long as w


class Curvature(NamedTuple):
    """``M = V V'``: V (agents, P, columns), and the ``scale`` (agents,), its trace, but at ``least`` that (agents,)."""

    V: np.ndarray
    scale: np.ndarray
    least: np.ndarray

    @classmethod
    def at_start(cls, problem: BaseProblem, w: np.ndarray, gradient: np.ndarray) -> "Curvature":
        """Return A times the own Gauss-Newton curvature at w, from 64 directions; V = 0 for costs without a model.

        The scale is at least the :func:`guess`, for a loss may have no curvature at the start; without a model 25 times that.
        """
        guessed = guess(w, gradient)
        none = cls(np.zeros((*w.shape, min(w.shape[1], COLUMNS)), w.dtype), GUESSED * guessed, GUESSED * guessed)
        if not has_model(problem):
            return none
        basis = directions(w.shape[1], none.V.shape[2], -1).astype(w.dtype)
        Z = problem.network_size * gauss_newton.products(problem, w, basis)
        trace = w.shape[1] / basis.shape[1] * np.einsum("pk,apk->a", basis, Z)
        scale = np.maximum(trace, guessed)
        least = np.maximum(_LEAST_SCALE * trace, guessed)
        return none.corrected(basis, Z, np.ones(len(w), bool))._replace(scale=scale, least=least)

    def times(self, d: np.ndarray) -> np.ndarray:
        """Return M d for d (agents, P)."""
        product: np.ndarray = (self.V @ (d[:, None, :] @ self.V).swapaxes(1, 2))[:, :, 0]
        return product

    def raised(self, least: np.ndarray) -> "Curvature":
        """Return the same M with a scale of at least that (agents,), from now on."""
        return Curvature(self.V, np.maximum(self.scale, least), np.maximum(self.least, least))

    def corrected(self, basis: np.ndarray, products: np.ndarray, counts: np.ndarray) -> "Curvature":
        """Return ``M - M O (O'M O)^+ O'M + Z (O'Z)^+ Z'``, positive semidefinite, which takes O to Z.

            V <- [V N, Z (O'Z)^(-1/2)],      N an orthonormal basis of what is orthogonal to V'O .

        O is ``basis`` (agents, P, count), or (P, count) for all, with no more columns than V; Z are ``products`` (agents, P,
        count). Agents whose products do not count, (agents,), keep their M.
        """
        V, count, columns = np.empty_like(self.V), basis.shape[-1], self.V.shape[2]

        def chunk(rows: slice) -> None:
            old, Z, own = self.V[rows], products[rows], basis if basis.ndim == 2 else basis[rows]
            across = np.linalg.qr(np.nan_to_num(old.swapaxes(1, 2) @ own), mode="complete")[0]
            np.matmul(old, across[:, :, count:], out=V[rows, :, count:])
            np.matmul(Z, _inverse_root(own, Z), out=V[rows, :, :count])
            V[rows][~counts[rows]] = old[~counts[rows]]

        for_chunks(chunk, len(V), 2 * V[0].nbytes, 2 * V.shape[1] * columns * columns)
        return Curvature(V, np.maximum(np.einsum("apk,apk->a", V, V), self.least), self.least)


def guess(w: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the damping (agents,) that makes a step down the ``gradient`` (agents, P) a quarter as long as 1 + |w|."""
    damping: np.ndarray = 4 * np.linalg.norm(gradient, axis=1) / (1 + np.linalg.norm(w, axis=1))
    return damping


def directions(parameters: int, count: int, round: int) -> np.ndarray:
    """Return the orthonormal O (P, count) of a round, which all agents draw alike, by the round's number."""
    basis: np.ndarray = np.linalg.qr(np.random.default_rng(round + 1).standard_normal((parameters, count)))[0]
    return basis


def products(problem: BaseProblem, w: np.ndarray, round: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the directions O (P, count) of a round, and A times the own Gauss-Newton curvature times O, (agents, P, count).

    There are eight, fewer for many parameters, and none where costs have no model.
    """
    if not has_model(problem):
        return np.zeros((problem.parameters, 0)), np.zeros((*w.shape, 0), w.dtype)
    count = max(1, min(DIRECTIONS, problem.parameters, _NUMBERS // problem.parameters))
    basis = directions(problem.parameters, count, round).astype(w.dtype)
    return basis, problem.network_size * gauss_newton.products(problem, w, basis)


def _inverse_root(basis: np.ndarray, products: np.ndarray) -> np.ndarray:
    """Return X (agents, count, count) with X X' the pseudoinverse of O'Z, made symmetric."""
    core = np.nan_to_num(basis.swapaxes(-1, -2) @ products)
    values, vectors = np.linalg.eigh((core + core.swapaxes(1, 2)) / 2)
    large = values > np.maximum(_LOST * values[:, -1:], np.finfo(values.dtype).tiny)
    root: np.ndarray = vectors * np.where(large, 1 / np.sqrt(np.where(large, values, 1)), 0)[:, None]
    return root
