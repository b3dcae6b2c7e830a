"""Gradient tracking."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from consensus import _checks
from consensus._rows import combined
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import as_minibatches, draw
from consensus.solvers.base import Solver, repr_of_given
from consensus.solvers.bounds import gap, lowest_eigenvalue, refuse_batches, steepest
from consensus.solvers.needs import Needs
from consensus.steps import Rule, optional_rule
from topologies.schedules import ScheduleLike, is_static

if TYPE_CHECKING:
    from consensus.engines.network import Network


class GradientTrackingState(NamedTuple):
    """Iterates w, trackers y of the average of the grad f_i, and local gradients grad f_i, all (agents, P)."""

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
    step : float or rule, optional
        alpha > 0; linear convergence on strongly convex problems for a constant of order (1 - rho)^2 / L. One static symmetric
        W allows more: with equal quadratics of curvature L at all agents exactly ``alpha L < (1 + l)^2 / 2`` for "cta",
        ``(1 + l)^2 / (2 l^2)`` for "atc", for all eigenvalues l of W. Half of that is the default without a batch, times (1 -
        rho)^2 where W changes.
    order : {"atc", "cta"}
        Adapt, then combine; or combine, then adapt.
    batch : int or Minibatches, optional
        G from so many samples of each agent in every round, those of the round at which X+ is the iterate, instead of all.
        Y's mean is then that of the batches' gradients; with a constant alpha the agents stay in a neighbourhood of the
        optimum, whose square is of order alpha, however different their data are.

    References
    ----------
    Nedic, Olshevsky, Shi, "Achieving geometric convergence for distributed optimization over time-varying graphs", SIAM
    J. Optim. 27(4), 2017, Algorithm 1 (cta); Xu, Zhu, Soh, Xie, "Augmented distributed gradient methods for multi-agent
    optimization under uncoordinated constant stepsizes", CDC 2015 (atc); Pu, Nedic, "Distributed stochastic gradient tracking
    methods", Mathematical Programming 187, 2021, for batches.
    """

    alpha: Rule
    order: Literal["atc", "cta"]
    batch: Minibatches | None

    needs = Needs(regularizer="smooth")
    exchanges_a_round = 2
    sends = "w, y"

    __repr__ = repr_of_given

    def __init__(
        self,
        step: float | Rule | None = None,
        order: Literal["atc", "cta"] = "atc",
        batch: int | Minibatches | None = None,
    ) -> None:
        batch = as_minibatches(batch)
        self._set(alpha=optional_rule(step), order=_checks.choice("order", order, ("atc", "cta")), batch=batch)
        if order == "cta":
            self._set(exchanges_a_round=1)

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        refuse_batches(self)
        lowest = lowest_eigenvalue(network)
        bound = (1 + lowest) ** 2 / 2
        if self.order == "atc":
            bound = min(2.0, bound / lowest**2) if lowest < 0 else 2.0
        factor = 1.0 if is_static(network) else gap(network) ** 2
        return factor * bound / (2 * steepest(problem, network))

    def init(self, problem: BaseProblem, w: np.ndarray) -> GradientTrackingState:
        gradient = _checks.problem(problem).average_gradient(w, draw(self.batch, problem, 0))
        return GradientTrackingState(0, w, gradient, gradient)

    def step(self, problem: BaseProblem, network: "Network", state: GradientTrackingState) -> GradientTrackingState:
        n, w, y, gradient = state
        alpha, batch = self.alpha(n), draw(self.batch, problem, n + 1)
        if self.order == "atc":
            (w,) = network.mix(n, combined((1, -alpha), w, y))
            new = problem.average_gradient(w, batch)
            (y,) = network.mix(n, combined((1, 1, -1), y, new, gradient))
        else:
            w, mixed = network.mix(n, w, y)
            w = combined((1, -alpha), w, y, over=w)
            new = problem.average_gradient(w, batch)
            y = combined((1, 1, -1), mixed, new, gradient, over=mixed)
        return GradientTrackingState(n + 1, w, y, new)
