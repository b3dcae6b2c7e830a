"""DiNNO: ADMM whose local problems are solved by a few gradient steps."""

import copy
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.problems.minibatches import walked
from consensus.solvers.base import settled
from consensus.solvers.bounds import degrees, steepest
from consensus.solvers.needs import Needs
from consensus.solvers.states import DualSolver, DualState
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class DiNNO(DualSolver):
    """Distributed neural network optimisation: decentralised ADMM with a few gradient steps on each local problem.

    On the average form ``f_i = A g_i + r``, with W the mixing matrix, ``d_i = sum_{j != i} |w_ij|`` the degree of agent i and U
    before the first round zero:

        u_i <- u_i + c sum_j w_ij (x_i - x_j)
        v <- v - alpha (grad f_i(v) + u_i + c sum_j w_ij (x_i - x_j) + 2 c d_i (v - x_i))     local_steps times, from v = x_i
        x_i <- v

    gradient steps on ``f_i(v) + u_i . v + c sum_{j != i} w_ij |v - (x_i + x_j) / 2|^2``, if weights are nonnegative.
    An edge has the penalty c w_ij where the paper gives all edges the same. Gradients are of all samples, and steps plain, so
    that the agents' limit is the optimum; the paper also takes Adam on batches, and a growing c. It needs a static symmetric W
    and a smooth r. Theory, for local problems solved to the end, has convex f_i; linear convergence if strongly so.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0, below 2 / (L + 2 c d_i) for the local steps to descend, L the largest Lipschitz constant of the grad
        f_i. By default 1 / (2 L).
    local_steps : int
        Gradient steps in a round.
    penalty : float, optional
        Penalty c > 0; by default 1 / (4 alpha), which is L/2 with the default step.

    References
    ----------
    Yu, Vincent, Schwager, "DiNNO: distributed neural network optimization for multi-robot collaborative learning", IEEE RA-L
    7(2), 2022, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import DiNNO
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), DiNNO(step_size=0.05), rounds=200).mean.round(9)
    array([2.])
    """

    step_size: float | Rule | None = None
    local_steps: int = field(default=5, metadata={"count": 1})
    penalty: float | None = field(default=None, metadata={"above": 0})
    degrees: np.ndarray | None = field(default=None, init=False, repr=False, compare=False)

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "1 / (2 L)"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        L = steepest(problem, network)
        return 1 / (2 * L) if self.penalty is None else 1 / (L + 2 * self.penalty)

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        ready = copy.copy(super().prepared(problem, network))
        object.__setattr__(ready, "degrees", degrees(network))
        return ready

    def step(self, problem: BaseProblem, network: Network, state: DualState) -> DualState:
        n, w, dual = state
        alpha = value_at(self.step_size, n)
        c = 1 / (4 * alpha) if self.penalty is None else self.penalty
        (mixed,) = network.mix(n, w)
        coupling = c * (w - mixed)
        dual = dual + coupling
        stiffness = (2 * c * settled(self.degrees, "degrees")[problem.rows]).astype(w.dtype)[:, None]
        given, steps = (w, w, dual + coupling, stiffness), range(self.local_steps)
        w = walked(problem, None, steps, lambda v, g, x, u, s: v - alpha * (g + u + s * (v - x)), *given)
        return DualState(n + 1, w, dual)
