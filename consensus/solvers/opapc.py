"""OPAPC."""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver, settled
from consensus.solvers.bounds import convexity, gap, six_digits, spread, steepest
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike

_MARGIN = 1 - 1e-5  # below the largest dual step, for rounding


class OPAPCState(NamedTuple):
    """Iterates w, the extrapolated points, and the dual variables y; all (agents, P)."""

    round: int
    w: np.ndarray
    ahead: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class OPAPC(Solver):
    """The optimal proximal alternating predictor-corrector: accelerated in the costs and in the network.

    G stacks the gradients of the average form ``f_i = A g_i + r``, and Lap = I - W; Xf_0 = X_0, Y_0 = 0:

        Xg = tau X + (1 - tau) Xf
        Xh = (X - eta (G(Xg) - mu Xg + Y)) / (1 + eta mu)
        Y+ = Y + theta Lap Xh
        X+ = (X - eta (G(Xg) - mu Xg + Y+)) / (1 + eta mu)
        Xf+ = Xg + (2 tau / (2 - tau)) (X+ - X) .

    The agents send Xh. f_i smooth and mu-strongly convex, one symmetric doubly stochastic W. With L the largest Lipschitz
    constant and chi = lmax / lmin+ of Lap, the number of rounds grows as sqrt(chi L / mu) + chi; with sqrt(chi) Chebyshev
    exchanges, ``Gossip(OPAPC(), k, gap)``, the numbers of exchanges and of gradients are optimal.

    Parameters
    ----------
    step_size : float, optional
        Step eta > 0. By default 1 / (4 tau L).
    convexity : float, optional
        The modulus of strong convexity mu > 0. By default the least of ``problem.strong_convexity()``.
    momentum : float, optional
        Weight tau in (0, 1]. By default min(1, sqrt(chi mu / L) / 2), with lmin+ bounded by the spectral gap of W.
    dual : float, optional
        Dual step theta > 0. By default 1 / (eta lmax).

    References
    ----------
    Kovalev, Salim, Richtarik, "Optimal and practical algorithms for smooth and strongly convex decentralized optimization",
    NeurIPS 2020, Algorithm 1 and Theorem 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1, lipschitz=2.0)
    >>> result = consensus.solve(problem, topologies.ring(5), consensus.solvers.OPAPC(convexity=2.0), rounds=500)
    >>> result.w[:, 0].round(9).tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    step_size: float | Rule | None = None
    convexity: float | None = field(default=None, metadata={"above": 0})
    momentum: float | None = field(default=None, metadata={"above": 0, "most": 1})
    dual: float | None = field(default=None, metadata={"above": 0})

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "1 / (4 tau L)"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return 1 / (4 * self._tau(problem, network) * steepest(problem, network))

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        mu = convexity(problem) if self.convexity is None else self.convexity
        ready = super().prepared(problem, network)
        dual = _MARGIN / (value_at(ready.step_size, 0) * spread(network)) if self.dual is None else self.dual
        return replace(ready, convexity=mu, momentum=self._tau(problem, network), dual=dual)

    def _tau(self, problem: BaseProblem, network: ScheduleLike) -> float:
        if self.momentum is not None:
            return self.momentum
        mu = convexity(problem) if self.convexity is None else self.convexity
        chi = spread(network) / gap(network)
        return six_digits(min(1.0, math.sqrt(chi * mu / steepest(problem, network)) / 2))

    def init(self, problem: BaseProblem, w: np.ndarray) -> OPAPCState:
        return OPAPCState(0, w, w, np.zeros_like(w))

    def step(self, problem: BaseProblem, network: Network, state: OPAPCState) -> OPAPCState:
        n, w, ahead, y = state
        eta, mu = value_at(self.step_size, n), settled(self.convexity, "convexity")
        tau, theta = settled(self.momentum, "momentum"), settled(self.dual, "dual")
        middle = tau * w + (1 - tau) * ahead
        moved = w - eta * (problem.average_gradient(middle) - mu * middle)
        predicted = (moved - eta * y) / (1 + eta * mu)
        (mixed,) = network.mix(n, predicted)
        y = y + theta * (predicted - mixed)
        new = (moved - eta * y) / (1 + eta * mu)
        return OPAPCState(n + 1, new, middle + (2 * tau / (2 - tau)) * (new - w), y)
