"""LED: exact diffusion with local steps."""

import math
from dataclasses import dataclass, field

from consensus.communication.network import Network
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import walked
from consensus.solvers.bounds import refuse_batches, step_of_least
from consensus.solvers.needs import Needs
from consensus.solvers.states import DualSolver, DualState
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class LED(DualSolver):
    """Local exact diffusion: t local steps, then one exchange of one vector.

    On the average form ``f_i = A g_i + r`` with G the stacked gradients, Wt = (I + W) / 2 and Y0 = 0, from P = X do t times

        P <- P - alpha G(P) - Y / t ,     then     X+ = Wt P,     Y+ = Y + P - X+ .

    ``sum_i y_i = 0`` at every round. With t = 1 it is exact diffusion. W is fixed and symmetric, r smooth, f_i may be
    nonconvex: theory asks for ``alpha = O(1 / (t L))``, whatever the network. On convex quadratics alpha = 0.9 / L was stable
    on all networks tried, with up to ten local steps.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0. By default 0.9 / L, or ``sqrt((1 - lambda_2) / (2 mu L)) / t`` if that is less, with mu the mean modulus
        of convexity and lambda_2 the second eigenvalue of W. For models that are not linear it is at most 0.7 / (t L).
    local_steps : int
        Number t of local steps.
    batch : int or Minibatches, optional
        Number of samples of each agent in every local step, fresh ones each time, instead of all. There is no default step
        then, and a constant alpha leaves the agents in a neighbourhood whose square is of order alpha.

    References
    ----------
    Alghunaim, "Local exact-diffusion for decentralized optimization and learning", IEEE TAC 69(11), 2024, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import LED
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), LED(0.02, local_steps=4), rounds=200).w.round(6).ravel()
    array([2., 2., 2., 2., 2.])
    """

    step_size: float | Rule | None = None
    local_steps: int = field(default=4, metadata={"count": 1})
    batch: int | Minibatches | None = None

    needs = Needs(regularizer="smooth", mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "by L, mu and W; of networks: give a step"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        refuse_batches(self)
        steps = self.local_steps
        return step_of_least(problem, network, 0.9, 0.7 / steps, lambda slow: math.sqrt(slow / 2) / steps)

    def step(self, problem: BaseProblem, network: Network, state: DualState) -> DualState:
        n, w, y = state
        alpha, t = value_at(self.step_size, n), self.local_steps
        p = walked(problem, self.batch, range(n * t, (n + 1) * t), lambda p, g, y: p - alpha * g - y / t, w, y)
        (mixed,) = network.mix(n, p)
        w = (p + mixed) / 2
        return DualState(n + 1, w, y + p - w)
