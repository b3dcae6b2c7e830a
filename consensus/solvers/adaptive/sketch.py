"""Curvature of costs that have a model: products of their Gauss-Newton curvature with random directions."""

import functools
from typing import NamedTuple

import numpy as np

from consensus.problems import Linearizable
from consensus.solvers.adaptive import gauss_newton
from consensus.solvers.adaptive.gauss_newton import Test
from consensus.solvers.adaptive.nystrom import factor
from consensus.solvers.adaptive.quadratic import LowRank

DIRECTIONS, _NUMBERS = 64, 1 << 18  # columns of curvature in a message, and numbers in them, at most


class Sketch(NamedTuple):
    """The local curvature, as far as it is known: ``products`` J_i' S_i J_i Omega (agents, P, count) at the trial points.

    All agents draw the directions Omega of a round alike. The products are what they send; their sums over the network give V.
    """

    products: np.ndarray

    @classmethod
    def at_start(cls, problem: Linearizable, w: np.ndarray) -> "Sketch":
        """At the start w (agents, P)."""
        return cls(gauss_newton.products(problem, w, _basis(problem, 0)))

    @staticmethod
    def numbers(problem: Linearizable) -> int:
        """How many numbers an agent sends."""
        return columns(problem) * problem.parameters

    def scale(self, problem: Linearizable, w: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """The trace of H (agents,) as the local cost lets an agent estimate it, and tau's first value in units of that."""
        A, P = problem.network_size, problem.parameters
        scale = A * P / columns(problem) * np.einsum("pk,apk->a", _basis(problem, 0), self.products)
        # A loss may have no curvature at the start, as Huber's far away: then by what step would be as long as w.
        return np.maximum(scale, A * np.linalg.norm(gradient, axis=1) / (1 + np.linalg.norm(w, axis=1))), 3e-3

    def unknown(self) -> LowRank:
        """No curvature, before any is known."""
        return LowRank(np.zeros((*self.products.shape[:2], 1), self.products.dtype))

    def sent(self) -> "Sketch":
        """The blocks that are summed over the network."""
        return self

    def of_network(
        self, problem: Linearizable, round: int, sums: "Sketch", step: np.ndarray, change: np.ndarray
    ) -> tuple[LowRank, "Sketch"]:
        """H = V V' with V (agents, P, count), from the ``sums`` of what was sent in a round, and what is kept of it."""
        return LowRank(factor(_basis(problem, round), sums.products)), self

    def moved(self, problem: Linearizable, trial: np.ndarray, round: int) -> "Sketch":
        """At new trial points (agents, P), for the directions of ``round``."""
        return Sketch(gauss_newton.products(problem, trial, _basis(problem, round)))

    def each_local_model(self, problem: Linearizable, w: np.ndarray, test: Test) -> None:
        """As :func:`gauss_newton.each_local_model`, if there is anything to test."""
        if not gauss_newton.exact(problem):
            gauss_newton.each_local_model(problem, w, test)


def columns(problem: Linearizable) -> int:
    """How many directions there are."""
    return max(1, min(problem.parameters, DIRECTIONS, _NUMBERS // problem.parameters))


def _basis(problem, round):
    return directions(problem.parameters, columns(problem), round, problem.dtype)


@functools.lru_cache(maxsize=2)
def directions(parameters: int, count: int, seed: int, dtype: np.dtype) -> np.ndarray:
    """Orthonormal random directions (P, count), the same for all agents: they draw them from a common ``seed``."""
    draw = np.random.default_rng(seed).standard_normal((parameters, count))
    basis = np.linalg.qr(draw)[0].astype(dtype)
    basis.flags.writeable = False  # it is kept, for whoever asks next
    return basis
