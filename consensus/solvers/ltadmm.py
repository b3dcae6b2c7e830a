"""LT-ADMM: ADMM with local training."""

import math
from dataclasses import dataclass, field

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.problems.minibatches import walked
from consensus.solvers.bounds import step_of_least
from consensus.solvers.needs import Needs
from consensus.solvers.states import DualSolver, DualState
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class LTADMM(DualSolver):
    """Local training ADMM: several gradient steps between exchanges, all with the same correction by the neighbours.

    With f_i = A g_i + r, G(X) the stacked gradients, W the mixing matrix, and U before the first round zero:

        U <- U + rho/2 (I - W) X
        V <- V - gamma (G(V) + U + rho/2 (I - W) X)          local_steps times, from V = X
        X <- V

    The paper has a variable z_ij for each edge and direction, of which only ``u_i = sum_j (z_ji - z_ij) / 2`` is needed, and
    the penalty rho for all edges; here an edge has rho w_ij, and the agent's own weight is an edge to itself. The paper's beta
    equals gamma. It needs a static symmetric W and a smooth r. Its theory reaches stationary points of nonconvex costs, the
    optimum of strongly convex ones linearly, with small gamma.

    Parameters
    ----------
    step_size : float or rule, optional
        Step gamma > 0. With L the largest Lipschitz constant of the grad f_i, quadratics are stable for gamma <= 1 / L and
        ``rho (1 - lmin(W)) < 8 / (3 local_steps gamma)``, which the default of rho fulfils on every network. The default is
        0.9 / L, or ``sqrt((1 - lambda_2) / (2 mu L)) / local_steps`` if that is less, with mu the mean modulus of convexity and
        lambda_2 the second eigenvalue of W. For models that are not linear it is at most 0.7 / (local_steps L): some networks
        with unlike shards did not settle with 0.9.
    local_steps : int
        Gradient steps in a round.
    penalty : float, optional
        Penalty rho > 0; by default 1 / (local_steps gamma).

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
    local_steps: int = field(default=5, metadata={"count": 1})
    penalty: float | None = field(default=None, metadata={"above": 0})

    needs = Needs(regularizer="smooth", mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "by L, mu and W; of networks: give a step"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        steps = self.local_steps
        return step_of_least(problem, network, 0.9, 0.7 / steps, lambda slow: math.sqrt(slow / 2) / steps)

    def step(self, problem: BaseProblem, network: Network, state: DualState) -> DualState:
        n, w, dual = state
        gamma = value_at(self.step_size, n)
        rho = 1 / (self.local_steps * gamma) if self.penalty is None else self.penalty
        (mixed,) = network.mix(n, w)
        coupling = rho / 2 * (w - mixed)
        dual = dual + coupling
        w = walked(problem, None, range(self.local_steps), lambda v, g, u: v - gamma * (g + u), w, dual + coupling)
        return DualState(n + 1, w, dual)
