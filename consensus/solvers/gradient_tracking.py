"""Gradient tracking."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.directions import Direction
from consensus.directions.base import NoMemory
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.bounds import refuse_batches, refuse_directions, step_below
from consensus.solvers.direction import DirectionSolver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


class GradientTrackingState(NamedTuple):
    """Iterates, trackers y of the average gradient, local gradients, all (agents, P); and what the direction remembers."""

    round: int
    w: np.ndarray
    y: np.ndarray
    gradient: np.ndarray
    direction: Any = NoMemory()


@dataclass(frozen=True, repr=False)
class GradientTracking(DirectionSolver):
    """Every agent follows its running estimate Y of the network's average gradient.

    On the average form ``f_i = A g_i + r`` with G(X) the stacked gradients, W the round's mixing matrix, Y0 = G(X0):

        order="cta" (DIGing)    X+ = W X - alpha Y           Y+ = W Y + G(X+) - G(X)           one exchange a round
        order="atc" (Aug-DGM)   X+ = W (X - alpha Y)         Y+ = W (Y + G(X+) - G(X))         two exchanges a round

    W doubly stochastic, the graphs jointly connected, r smooth.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0; linear convergence on strongly convex problems for a constant of order (1 - rho)^2 / L. One static
        symmetric W allows more: equal quadratics of curvature L at all agents are stable exactly if ``alpha L < b(l)`` for all
        eigenvalues l of W, with ``b(l) = (1 + l)^2 / 2`` for "cta" and ``(1 + l)^2 / (2 l^2)`` for "atc"; all quadratics for
        ``alpha diag(L_i) < b(W)``, with the Lipschitz constants L_i of the grad f_i. The default without a batch is 0.9 of that
        (half for models that are not linear, and times (1 - rho)^2 / 2 where W changes), or ``(1 - lambda_2) / sqrt(mu L)`` if
        that is less, lambda_2 the second eigenvalue of W and mu the mean modulus of convexity.
    order : {"atc", "cta"}
        Adapt, then combine; or combine, then adapt.
    batch : int or Minibatches, optional
        Number of samples of each agent in every round, instead of all; those of G(X+) are drawn at the round at which X+ is the
        iterate. With a constant alpha the agents stay in a neighbourhood of the optimum, whose square is of order alpha,
        however different their data are.
    direction : Direction, optional
        Rule that turns Y into the directions D of the steps, ``X+ = W (X - alpha D)`` or ``X+ = W X - alpha D``; what is
        tracked stays the gradient. See :mod:`consensus.directions`: with Adam it is GTAdam, with Muon DeMuon.

    References
    ----------
    Nedic, Olshevsky, Shi, "Achieving geometric convergence for distributed optimization over time-varying graphs", SIAM
    J. Optim. 27(4), 2017, Algorithm 1 (cta); Xu, Zhu, Soh, Xie, "Augmented distributed gradient methods for multi-agent
    optimization under uncoordinated constant stepsizes", CDC 2015 (atc); Pu, Nedic, "Distributed stochastic gradient tracking
    methods", Mathematical Programming 187, 2021, for batches.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import GradientTracking
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> result = consensus.solve(problem, topologies.ring(5), GradientTracking(0.02, order="cta"), rounds=200)
    >>> result.w[:, 0].round(6).tolist(), int(result.history["exchanges"][-1])
    ([2.0, 2.0, 2.0, 2.0, 2.0], 200)
    """

    step_size: float | Rule | None = None
    order: Literal["atc", "cta"] = "atc"
    batch: int | Minibatches | None = None
    direction: Direction | None = None

    tracked = True
    needs = Needs(regularizer="smooth")
    exchanges_a_round = 2
    sends = "w, y"
    default = "by L_i, mu and W"

    def __post_init__(self) -> None:
        super().__post_init__()
        if _checks.choice("order", self.order, ("atc", "cta")) == "cta":
            object.__setattr__(self, "exchanges_a_round", 1)

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        refuse_batches(self)
        refuse_directions(self)
        power = 2 if self.order == "atc" else 0
        return step_below(problem, network, lambda values: (1 + values) ** 2 / (2 * values**power), lambda slow: slow)

    def init(self, problem: BaseProblem, w: np.ndarray) -> GradientTrackingState:
        gradient = _checks.problem(problem).average_gradient(w, draw(self.batch, problem, 0))
        return GradientTrackingState(0, w, gradient, gradient, self._memory(problem, w))

    def step(self, problem: BaseProblem, network: Network, state: GradientTrackingState) -> GradientTrackingState:
        n, w, y, gradient, memory = state
        alpha, batch, d = value_at(self.step_size, n), draw(self.batch, problem, n + 1), y
        if self.direction is not None:
            memory, d = self.direction.step(problem, memory, y, w)
        if self.order == "atc":
            (w,) = network.mix(n, w - alpha * d)
            new = problem.average_gradient(w, batch)
            (y,) = network.mix(n, y + new - gradient)
        else:
            mixed_w, mixed_y = network.mix(n, w, y)
            w = mixed_w - alpha * d
            new = problem.average_gradient(w, batch)
            y = mixed_y + new - gradient
        return GradientTrackingState(n + 1, w, y, new, memory)
