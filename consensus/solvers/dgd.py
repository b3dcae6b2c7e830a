"""Decentralised gradient descent."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.steps import as_rule


class DGDState(NamedTuple):
    """Iterates w (agents, P)."""

    round: int
    w: np.ndarray


@dataclass(frozen=True, init=False)
class DGD(Solver):
    """Average with the neighbours, then descend on the own cost: ``X+ = W X - alpha G(X)``.

    G stacks the gradients of the average form ``f_i = A g_i + r``. With a constant alpha it ends at the minimiser of
    ``sum_i f_i(x_i) + |X|^2_{I - W} / (2 alpha)``, in a neighbourhood of the optimum of size O(alpha / (1 - rho)), not at
    the optimum; with alpha ~ n^-1/2 (:class:`consensus.steps.InverseSqrt`) it approaches it slowly.

    Parameters
    ----------
    step : float or rule
        alpha > 0. On quadratics with curvature at most L a constant below (1 + lmin(W)) / L is stable.

    References
    ----------
    Nedic, Ozdaglar, "Distributed subgradient methods for multi-agent optimization", IEEE TAC 54(1), 2009, eq. (3); Yuan,
    Ling, Yin, "On the convergence of decentralized gradient descent", SIAM J. Optim. 26(3), 2016.
    """

    alpha: object

    needs = Needs(regularizer="smooth")
    exchanges_a_round = 1
    sends = "w"

    def __init__(self, step):
        self._set(alpha=as_rule(step))

    def init(self, problem, w):
        return DGDState(0, w)

    def step(self, problem, network, state):
        n, w = state
        (mixed,) = network.mix(n, w)
        mixed -= self.alpha(n) * problem.average_gradient(w)
        return DGDState(n + 1, mixed)
