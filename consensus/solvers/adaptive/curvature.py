"""An agent's model of the curvature of the network's average cost: few columns, corrected by products."""

from typing import NamedTuple

import numpy as np

from consensus._arrays.parallel import for_chunks
from consensus.problems import has_model
from consensus.problems.base import BaseProblem
from consensus.solvers.adaptive import gauss_newton

DIRECTIONS, _NUMBERS = 8, 1 << 18  # of a round, and numbers in their products, at most
COLUMNS = 64  # of V, at most
_LOST = 1e-6  # of the largest eigenvalue of O'Z: smaller ones are rounding
_LEAST_SCALE = 1e-3  # of the trace at the start
_PROBED = 10.0  # the scale without a model, in units of the probed curvature
_TURN, _PROBES = 0.5, 24  # of |g|, by which a probe changes the gradient; probes
_WIDEST, _NEAR = 20.0, 2.0  # logarithms: of a factor between probes, and of one by which they interpolate, at most
_TINY = np.finfo(float).tiny ** 0.5


class Curvature(NamedTuple):
    """``M = V V'``: V (agents, P, columns), and the ``scale`` (agents,), its trace, but at ``least`` that (agents,)."""

    V: np.ndarray
    scale: np.ndarray
    least: np.ndarray

    @classmethod
    def at_start(cls, problem: BaseProblem, w: np.ndarray, gradient: np.ndarray, weight: float) -> "Curvature":
        """Return A times the own Gauss-Newton curvature at w, from 64 directions; V = 0 for costs without a model.

        The scale is at least what a step down the own gradient finds (:func:`probed`), for a loss may have no curvature at the
        start; without a model it is ten times that, until M has a trace.
        """
        V = np.zeros((*w.shape, min(w.shape[1], COLUMNS)), w.dtype, like=w)
        known = has_model(problem) and gauss_newton.exact(problem)
        found = np.zeros(len(w), w.dtype) if known else probed(problem, w, gradient, weight)
        if not has_model(problem):
            return cls(V, _PROBED * found, _PROBED * found)
        basis = np.asarray(directions(w.shape[1], V.shape[2], -1), w.dtype, like=w)
        Z = problem.network_size * gauss_newton.products(problem, w, basis)
        trace = w.shape[1] / basis.shape[1] * np.einsum("pk,apk->a", basis, Z)
        none = cls(V, trace, np.maximum(_LEAST_SCALE * trace, found))
        return none.corrected(basis, Z, np.ones(len(w), bool))._replace(scale=np.maximum(trace, found))

    def times(self, d: np.ndarray) -> np.ndarray:
        """Return M d for d (agents, P)."""
        product: np.ndarray = (self.V @ (d[:, None, :] @ self.V).swapaxes(1, 2))[:, :, 0]
        return product

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
            V[rows] = np.where(counts[rows, None, None], V[rows], old)

        for_chunks(chunk, len(V), 2 * V[0].nbytes, 2 * V.shape[1] * columns * columns)
        return Curvature(V, np.maximum(np.einsum("apk,apk->a", V, V), self.least), self.least)


def own_gradient(problem: BaseProblem, w: np.ndarray) -> np.ndarray:
    """Return ``A grad g_i(w_i)``, (agents, P)."""
    return problem.network_size * problem.gradient(w)


def probed(problem: BaseProblem, w: np.ndarray, gradient: np.ndarray, weight: float) -> np.ndarray:
    """Return ``|g(w + t e) - g(w)| / t`` (agents,), e = -g / |g|, with the t at which the own gradient g changed by half.

    ``gradient`` is g(w) + ``weight`` w, (agents, P), from which e and the half are taken. This t has the units of w, whatever
    they are: 24 gradients find it, by false positions of logarithms. Where the gradient is zero the step is w / 8; where w is
    zero, too, nothing is known, and the result is zero. Of a gradient that never changes it is ``|g| / (1 + |w|)``.
    """
    size, length = np.linalg.norm(gradient, axis=1), np.linalg.norm(w, axis=1)
    still, before = ~(size > 0), gradient - weight * w
    step = np.where(still[:, None], w, -gradient) / np.where(still, np.maximum(length, _TINY), size)[:, None]

    def far(t: np.ndarray) -> np.ndarray:
        moved: np.ndarray = np.linalg.norm(own_gradient(problem, (w + t[:, None] * step).astype(w.dtype)) - before, axis=1)
        return np.where(np.isfinite(moved), moved, np.inf)

    with np.errstate(all="ignore"):
        first = np.where(length > 0, length, 1.0)
        x = np.log(np.where(still, first / 8, np.sqrt(np.finfo(w.dtype).eps) * first))
        ends, misses = (np.full((2, len(w)), np.nan, like=w) for _ in range(2))  # of an interval around the logarithm of t
        found, error, last = np.zeros(len(w)), np.full(len(w), np.inf), np.full(len(w), -1)
        for trial in range(_PROBES):
            change = far(np.exp(x))
            off = np.clip(np.log(change / (_TURN * np.where(still, change, size))), -_WIDEST, _WIDEST)
            better = (np.abs(off) < error) | still
            found, error = np.where(better, change / np.exp(x), found), np.where(better, np.abs(off), error)
            for side, here in enumerate((off < 0, off >= 0)):
                misses[1 - side] /= np.where(here & (last == side), 2, 1)
                ends[side], misses[side] = (
                    np.where(here, x, ends[side]),
                    np.where(here, np.clip(off, -_NEAR, _NEAR), misses[side]),
                )
            last = (off >= 0).astype(int)
            between = ends[0] + (ends[1] - ends[0]) * misses[0] / (misses[0] - misses[1])
            ahead = np.where(np.isnan(between), x - (2 if trial else 1) * off, between)
            x = np.where(still | (off == 0), x, ahead)
    return np.where(found > 0, found, np.where(still, 0.0, size / (1 + length))).astype(w.dtype)


def directions(parameters: int, count: int, round: int) -> np.ndarray:
    """Return the orthonormal O (P, count) of a round, which all agents draw alike, by the round's number."""
    return np.linalg.qr(np.random.default_rng(round + 1).standard_normal((parameters, count)))[0]


def products(problem: BaseProblem, w: np.ndarray, round: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the directions O (P, count) of a round, and A times the own Gauss-Newton curvature times O, (agents, P, count).

    There are eight, fewer for many parameters, and none where costs have no model.
    """
    if not has_model(problem):
        return np.zeros((problem.parameters, 0)), np.zeros((*w.shape, 0), w.dtype)
    count = max(1, min(DIRECTIONS, problem.parameters, _NUMBERS // problem.parameters))
    basis = np.asarray(directions(problem.parameters, count, round), w.dtype, like=w)
    return basis, problem.network_size * gauss_newton.products(problem, w, basis)


def _inverse_root(basis: np.ndarray, products: np.ndarray) -> np.ndarray:
    """Return X (agents, count, count) with X X' the pseudoinverse of O'Z, made symmetric."""
    core = np.nan_to_num(basis.swapaxes(-1, -2) @ products)
    values, vectors = np.linalg.eigh((core + core.swapaxes(1, 2)) / 2)
    large = values > np.maximum(_LOST * values[:, -1:], np.finfo(values.dtype).tiny)
    return vectors * np.where(large, 1 / np.sqrt(np.where(large, values, 1)), 0)[:, None]
