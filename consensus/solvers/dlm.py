"""Decentralised linearised ADMM."""

import copy
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import settled
from consensus.solvers.bounds import degrees, steepest
from consensus.solvers.needs import Needs
from consensus.solvers.states import DualSolver, DualState
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class DLM(DualSolver):
    """Decentralised ADMM with every local cost linearised: a gradient step in place of a local problem.

    On the average form ``f_i = A g_i + r``, with W the mixing matrix, ``d_i = sum_{j != i} |w_ij|`` the degree of agent i and U
    before the first round zero:

        u_i <- u_i + c sum_j w_ij (x_i - x_j)
        x_i <- x_i - (grad f_i(x_i) + u_i + c sum_j w_ij (x_i - x_j)) / (2 c d_i + rho)

    An edge has the penalty c w_ij where the paper gives all edges the same, and the paper's U is zero before the second round:
    the same if all agents start alike. It needs a static symmetric W, convex f_i and a smooth r; it converges linearly if
    the f_i are strongly convex.

    Parameters
    ----------
    step_size : float or rule, optional
        Step 1 / rho > 0 of an agent without neighbours. Stable below 2 / L, whatever the network and c, with L the largest
        Lipschitz constant of the grad f_i. The default is 0.9 of that.
    penalty : float, optional
        Penalty c > 0; by default rho, which is 0.56 L with the default step.

    References
    ----------
    Ling, Shi, Wu, Ribeiro, "DLM: decentralized linearized alternating direction method of multipliers", IEEE TSP 63(15), 2015,
    Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import DLM
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), DLM(step_size=0.1), rounds=200).mean.round(9)
    array([2.])
    """

    step_size: float | Rule | None = None
    penalty: float | None = field(default=None, metadata={"above": 0})
    degrees: np.ndarray | None = field(default=None, init=False, repr=False, compare=False)

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "1.8 / L"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return 1.8 / steepest(problem, network)

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        ready = copy.copy(super().prepared(problem, network))
        object.__setattr__(ready, "degrees", degrees(network))
        return ready

    def step(self, problem: BaseProblem, network: Network, state: DualState) -> DualState:
        n, w, dual = state
        rho = 1 / value_at(self.step_size, n)
        c = rho if self.penalty is None else self.penalty
        (mixed,) = network.mix(n, w)
        coupling = c * (w - mixed)
        dual = dual + coupling
        scale = (2 * c * settled(self.degrees, "degrees")[problem.rows] + rho).astype(w.dtype)
        return DualState(n + 1, w - (problem.average_gradient(w) + dual + coupling) / scale[:, None], dual)
