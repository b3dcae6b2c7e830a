"""Curvature of costs given by functions: how the network's gradient changed along the last steps."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus.problems.base import BaseProblem
from consensus.solvers.adaptive.blocks import Nothing
from consensus.solvers.adaptive.costs import gradient as local_gradient
from consensus.solvers.adaptive.gauss_newton import Test
from consensus.solvers.adaptive.news import News
from consensus.solvers.adaptive.nystrom import factor
from consensus.solvers.adaptive.quadratic import LowRank

if TYPE_CHECKING:
    from consensus.engines.network import Network

_PAIRS = 20  # kept


class Secants(NamedTuple):
    """The last pairs of ``steps`` w_new - w_old and ``changes`` G_new - G_old, scaled to steps of length one.

    Both have shape (agents, P, 20), the newest pair last; columns of zeros stand for pairs that are not there yet. They are
    made of what the exchanges bring anyway: nothing is sent for them.
    """

    steps: np.ndarray
    changes: np.ndarray

    @classmethod
    def at_start(cls, problem: BaseProblem, w: np.ndarray) -> "Secants":
        """No pairs yet, at the start w (agents, P)."""
        none = np.zeros((*w.shape, _PAIRS), w.dtype)
        return cls(none, none)

    @staticmethod
    def numbers(problem: BaseProblem) -> int:
        """How many numbers an agent sends."""
        return 0

    def scale(self, problem: BaseProblem, w: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """The curvature of H (agents,) along the local ``gradient`` at w, as the local cost has it; tau begins with it."""
        norm = np.linalg.norm(gradient, axis=1, keepdims=True)
        along = np.divide(gradient, norm, out=np.full_like(gradient, problem.parameters**-0.5), where=norm > 0)
        h = np.sqrt(np.finfo(w.dtype).eps) * (1 + np.linalg.norm(w, axis=1, keepdims=True))
        there = local_gradient(problem, w + h * along)
        return problem.network_size * np.linalg.norm((there - gradient) / h, axis=1), 1.0

    def unknown(self) -> LowRank:
        """No curvature, before any is known."""
        return LowRank.of(np.zeros((*self.steps.shape[:2], 1), self.steps.dtype))

    def alone(self, network: "Network") -> None:
        """Nothing is known of the local cost's curvature alone."""

    def rounded(self, network: "Network") -> None:
        """Nothing is rounded."""

    def mixed(self, network: "Network") -> Nothing:
        """The blocks that are mixed: none."""
        return Nothing()

    def of_network(self, problem: BaseProblem, network: "Network", round: int, news: News) -> tuple[LowRank, "Secants"]:
        """H = V V' with V (agents, P, 20), and the pairs with the last one."""
        pairs = self if round == 0 else self._with(news.step, news.change)  # before round 0 no slope was known
        return LowRank.of(factor(*pairs)), pairs

    def _with(self, step, change):
        length = np.linalg.norm(step, axis=1, keepdims=True)
        inverse = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
        added = zip(self, (inverse * step, inverse * change), strict=True)
        return Secants(*(np.concatenate([old[:, :, 1:], new[:, :, None]], axis=2) for old, new in added))

    def moved(self, problem: BaseProblem, trial: np.ndarray) -> "Secants":
        """At new trial points: nothing changes."""
        return self

    def widened(self, problem: BaseProblem) -> "Secants":
        """As it is: there are no rounds alone."""
        return self

    def each_local_model(self, problem: BaseProblem, w: np.ndarray, test: Test) -> None:
        """Nothing is known of the local cost that could be tested."""
