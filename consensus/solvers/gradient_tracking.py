"""Gradient tracking."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.steps import as_rule


class GradientTrackingState(NamedTuple):
    """Iterates w, trackers y of the average of the grad f_i, and own gradients grad f_i, all (agents, P)."""

    round: int
    w: np.ndarray
    y: np.ndarray
    gradient: np.ndarray


@dataclass(frozen=True, init=False)
class GradientTracking(Solver):
    """Every agent follows its running estimate Y of the network's average gradient.

    On the average form ``f_i = A g_i + r`` with G(X) the stacked gradients, W the round's mixing matrix, Y0 = G(X0):

        order="cta" (DIGing)    X+ = W X - alpha Y           Y+ = W Y + G(X+) - G(X)           one exchange a round
        order="atc" (Aug-DGM)   X+ = W (X - alpha Y)         Y+ = W (Y + G(X+) - G(X))         two exchanges a round

    W doubly stochastic, the graphs jointly connected, r smooth.

    Parameters
    ----------
    step : float or rule
        alpha > 0; linear convergence on strongly convex problems for a constant of order (1 - rho)^2 / L.
    order : {"atc", "cta"}
        Adapt, then combine; or combine, then adapt.

    References
    ----------
    Nedic, Olshevsky, Shi, "Achieving geometric convergence for distributed optimization over time-varying graphs", SIAM
    J. Optim. 27(4), 2017, Algorithm 1 (cta); Xu, Zhu, Soh, Xie, "Augmented distributed gradient methods for multi-agent
    optimization under uncoordinated constant stepsizes", CDC 2015 (atc).
    """

    alpha: object
    order: str

    needs = Needs(regularizer="smooth")
    exchanges_a_round = 2
    sends = "w, y"

    def __init__(self, step, order="atc"):
        self._set(alpha=as_rule(step), order=_checks.choice("order", order, ("atc", "cta")))
        if order == "cta":
            self._set(exchanges_a_round=1)

    def init(self, problem, w):
        gradient = _checks.problem(problem).average_gradient(w)
        return GradientTrackingState(0, w, gradient, gradient)

    def step(self, problem, network, state):
        n, w, y, gradient = state
        alpha = self.alpha(n)
        if self.order == "atc":
            (w,) = network.mix(n, w - alpha * y)
            new = problem.average_gradient(w)
            (y,) = network.mix(n, y + new - gradient)
        else:
            w, mixed = network.mix(n, w, y)
            w -= alpha * y
            new = problem.average_gradient(w)
            y = mixed + new - gradient
        return GradientTrackingState(n + 1, w, y, new)
