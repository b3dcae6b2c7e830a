"""Accelerated gradient tracking."""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver, settled
from consensus.solvers.bounds import convexity, gap, lowest_eigenvalue, steepest
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike, is_static


class AccGTState(NamedTuple):
    """Iterates w, the points z of long steps, trackers s, and the gradients in them; all (agents, P)."""

    round: int
    w: np.ndarray
    z: np.ndarray
    s: np.ndarray
    gradient: np.ndarray


@dataclass(frozen=True)
class AccGT(Solver):
    """Gradient tracking with Nesterov's acceleration, on networks that may change.

    G stacks the gradients of the average form ``f_i = A g_i + r``, theta = sqrt(mu alpha) / 2, q = mu alpha / theta, Z_0 = X_0,
    S = G = 0 before the first round:

        Y = theta Z + (1 - theta) X,   S = W S + G(Y) - G(Y before),
        Z+ = (W (q Y + Z) - (alpha / theta) S) / (1 + q),   X+ = theta Z+ + (1 - theta) W X .

    The agents send X, q Y + Z and S together. f_i convex and smooth, U strongly convex. The number of rounds to a given
    accuracy grows as sqrt(L / mu).

    Parameters
    ----------
    step_size : float, optional
        Step alpha > 0, constant, and at most 1 / mu. Its theory's order is (1 - rho)^3 / L; on one static W far more is stable:
        by default half the bound of :class:`consensus.solvers.GradientTracking` ("cta"), times (1 - rho)^2 where W changes.
    convexity : float, optional
        The modulus of strong convexity mu > 0. By default the least of ``problem.strong_convexity()``.

    References
    ----------
    Li, Lin, "Accelerated gradient tracking over time-varying graphs for decentralized optimization", JMLR 25, 2024.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import AccGT
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1, lipschitz=2.0)
    >>> consensus.solve(problem, topologies.ring(5), AccGT(convexity=2.0), rounds=500).w[:, 0].round(9).tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    step_size: float | Rule | None = None
    convexity: float | None = field(default=None, metadata={"above": 0})

    needs = Needs(regularizer="smooth", convex=True)
    exchanges_a_round = 1
    sends = "w, z, s"
    default = "(1 + lmin)^2 / (4 L)"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        factor = 1.0 if is_static(network) else gap(network) ** 2
        return factor * (1 + lowest_eigenvalue(network)) ** 2 / (4 * steepest(problem, network))

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        ready = super().prepared(problem, network)
        return replace(ready, convexity=convexity(problem)) if self.convexity is None else ready

    def width(self, problem: BaseProblem) -> int:
        return 3 * _checks.problem(problem).parameters

    def init(self, problem: BaseProblem, w: np.ndarray) -> AccGTState:
        return AccGTState(0, w, w, np.zeros_like(w), np.zeros_like(w))

    def step(self, problem: BaseProblem, network: Network, state: AccGTState) -> AccGTState:
        n, w, z, s, before = state
        alpha, mu = value_at(self.step_size, n), settled(self.convexity, "convexity")
        theta = math.sqrt(mu * alpha) / 2
        q = mu * alpha / theta
        y = theta * z + (1 - theta) * w
        gradient = problem.average_gradient(y)
        w, z, s = network.mix(n, w, q * y + z, s)
        s = s + gradient - before
        z = (z - (alpha / theta) * s) / (1 + q)
        return AccGTState(n + 1, theta * z + (1 - theta) * w, z, s, gradient)
