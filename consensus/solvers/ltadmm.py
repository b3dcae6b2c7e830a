"""LT-ADMM: ADMM with local training."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.bounds import step_of_least
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


class LTADMMState(NamedTuple):
    """Iterates w and the dual variables, ``(sum_j z_ji - sum_j z_ij) / 2`` of the edges' variables z, both (agents, P)."""

    round: int
    w: np.ndarray
    dual: np.ndarray


@dataclass(frozen=True)
class LTADMM(Solver):
    """Local training ADMM: several gradient steps between exchanges, all pulled the same way by the network.

    The paper has a variable z_ij for each edge and direction: with f_i = A g_i + r and x_i the iterate,

        v <- v - gamma grad f_i(v) - beta (rho d_i x_i - sum_j z_ij)          local_steps times, from v = x_i
        x_i <- v          z_ij <- (z_ij - z_ji) / 2 + rho x_j

    Only ``u_i = sum_j (z_ji - z_ij) / 2`` is needed of them. With an edge's penalty rho w_ij in place of rho (the agent's own
    weight is an edge to itself), z_ij = rho w_ij x_j at first, G(X) the stacked gradients, and U before the first round zero,
    the same is

        U <- U + rho/2 (I - W) X
        V <- V - gamma G(V) - beta (U + rho/2 (I - W) X)          local_steps times, from V = X
        X <- V

    where only the product of beta and rho matters; here ``beta = gamma``. It needs a static symmetric W and a smooth r. Its
    theory reaches stationary points of nonconvex costs, the optimum of strongly convex ones linearly, with small gamma.

    Parameters
    ----------
    step_size : float or rule, optional
        gamma > 0. With L the largest Lipschitz constant of the grad f_i, quadratics are stable for gamma <= 1 / L and
        ``rho (1 - lmin(W)) < 8 / (3 local_steps gamma)``, which the default of rho fulfils on every network. The default is
        0.9 / L, or ``sqrt((1 - lambda_2) / (2 mu L)) / local_steps`` if that is less, with mu the mean modulus of convexity and
        lambda_2 the second eigenvalue of W: above it disagreement takes longer to vanish than the mean to arrive. For models
        that are not linear it is at most 0.7 / (local_steps L): some networks with unlike shards did not settle with 0.9.
    local_steps : int
        Gradient steps in a round.
    penalty : float, optional
        rho > 0; by default 1 / (local_steps gamma).

    References
    ----------
    Ren, Bastianello, Johansson, Parisini, "Communication-efficient stochastic distributed learning", arXiv 2501.13516, 2025,
    Algorithm 1 with whole gradients.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import LTADMM
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), LTADMM(step_size=0.02), rounds=200).mean.round(9)
    array([2.])
    """

    step_size: float | Rule | None = None
    local_steps: int = 5
    penalty: float | None = None

    needs = Needs(regularizer="smooth", mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "by L, mu and W"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "local_steps", _checks.count("local_steps", self.local_steps))
        object.__setattr__(self, "penalty", _checks.optional_number("penalty", self.penalty, above=0))

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        steps = self.local_steps
        return step_of_least(problem, network, 0.9, 0.7 / steps, lambda slow: math.sqrt(slow / 2) / steps)

    def init(self, problem: BaseProblem, w: np.ndarray) -> LTADMMState:
        return LTADMMState(0, w, np.zeros_like(w))

    def step(self, problem: BaseProblem, network: Network, state: LTADMMState) -> LTADMMState:
        n, w, dual = state
        gamma = value_at(self.step_size, n)
        rho = 1 / (self.local_steps * gamma) if self.penalty is None else self.penalty
        (mixed,) = network.mix(n, w)
        apart = rho / 2 * (w - mixed)
        dual = dual + apart
        pull = dual + apart
        for _ in range(self.local_steps):
            w = w - gamma * (problem.average_gradient(w) + pull)
        return LTADMMState(n + 1, w, dual)
