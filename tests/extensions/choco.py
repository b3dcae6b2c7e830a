"""CHOCO-SGD: a compressed method written from the documentation of Solver and Packed alone."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus.solvers import Needs, Solver


class ChocoState(NamedTuple):
    """Iterates, what the neighbours know of them, and its average among them; all (agents, P)."""

    round: int
    w: np.ndarray
    known: np.ndarray
    mixed: np.ndarray


@dataclass(frozen=True)
class Choco(Solver):
    """CHOCO-SGD on a static W: ``H = X - a G(X)``, ``S+ = S + Q(H - S)``, ``X+ = H + c (W - I) S+``; ``S = 0`` at first.

    Koloskova, Stich, Jaggi, "Decentralized stochastic optimization and gossip algorithms with compressed communication", ICML
    2019, Algorithm 2.
    """

    step_size: float
    c: float
    compress: object

    needs = Needs(regularizer="smooth", static=True)

    def init(self, problem, w):
        return ChocoState(0, w, np.zeros_like(w), np.zeros_like(w))

    def step(self, problem, network, state):
        n, w, known, mixed = state
        half = w - self.step_size * problem.average_gradient(w)
        news = self.compress(half - known)
        (theirs,) = network.mix(n, news)
        known, mixed = known + news.unpack(), mixed + theirs
        return ChocoState(n + 1, half + self.c * (mixed - known), known, mixed)
