"""EXTRA: a solver written from the documentation of Solver and Needs alone, in one file."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus.solvers import Needs, Solver
from consensus.step_sizes import Rule, value_at


class EXTRAState(NamedTuple):
    """Iterates w, those before averaged with what mixing made of them, and the gradients there, all (agents, P)."""

    round: int
    w: np.ndarray
    before: np.ndarray
    gradient: np.ndarray


@dataclass(frozen=True)
class EXTRA(Solver):
    """The exact first-order algorithm: gradient descent on a network, corrected by its own last step.

    On the average form ``f_i = A g_i + r`` with G(X) the stacked gradients and W~ = (I + W) / 2:

        X1 = W X0 - alpha G(X0),   X_{k+2} = (I + W) X_{k+1} - W~ X_k - alpha (G(X_{k+1}) - G(X_k)) .

    References
    ----------
    Shi, Ling, Wu, Yin, "EXTRA: an exact first-order algorithm for decentralized consensus optimization", SIAM J. Optim. 25(2),
    2015, Algorithm 1.
    """

    step_size: float | Rule

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"

    def init(self, problem, w):
        return EXTRAState(0, w, w, np.zeros_like(w))  # with which the first round, too, is the recursion

    def step(self, problem, network, state):
        n, w, before, gradient = state
        (mixed,) = network.mix(n, w)
        new = problem.average_gradient(w)
        return EXTRAState(n + 1, w + mixed - before - value_at(self.step_size, n) * (new - gradient), (w + mixed) / 2, new)
