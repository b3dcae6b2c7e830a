"""Decentralised linearised ADMM."""

import copy
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.bounds import degrees, steepest
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


class DLMState(NamedTuple):
    """Iterates w and the dual variables of the agents' disagreement, both (agents, P)."""

    round: int
    w: np.ndarray
    dual: np.ndarray


@dataclass(frozen=True)
class DLM(Solver):
    """Decentralised ADMM with every local cost linearised: a gradient step in place of a local problem.

    On the average form ``f_i = A g_i + r``, with W the mixing matrix, ``d_i = sum_{j != i} |w_ij|`` the degree of agent i and U
    before the first round zero:

        u_i <- u_i + c sum_j w_ij (x_i - x_j)
        x_i <- x_i - (grad f_i(x_i) + u_i + c sum_j w_ij (x_i - x_j)) / (2 c d_i + rho)

    An edge has the penalty c w_ij where the paper gives all edges the same, and the paper's U is zero before the second round:
    the same where all agents start alike. It needs a static symmetric W, convex f_i and a smooth r; it converges linearly if
    the f_i are strongly convex.

    Parameters
    ----------
    step_size : float or rule, optional
        1 / rho > 0, the step of an agent without neighbours. Stable below 2 / L, whatever the network and c, with L the largest
        Lipschitz constant of the grad f_i. The default is 0.9 of that.
    penalty : float, optional
        c > 0; by default rho, which is 0.56 L with the default step.

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
    penalty: float | None = None
    degrees: np.ndarray | None = field(default=None, init=False, repr=False, compare=False)

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "1.8 / L"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "penalty", _checks.optional_number("penalty", self.penalty, above=0))

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return 1.8 / steepest(problem, network)

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        ready = copy.copy(super().prepared(problem, network))
        object.__setattr__(ready, "degrees", degrees(network))
        return ready

    def init(self, problem: BaseProblem, w: np.ndarray) -> DLMState:
        if self.degrees is None:
            raise TypeError("the degrees are not known yet: solver.prepared(problem, network) is the solver that knows them")
        return DLMState(0, w, np.zeros_like(w))

    def step(self, problem: BaseProblem, network: Network, state: DLMState) -> DLMState:
        n, w, dual = state
        assert self.degrees is not None, "a prepared solver has its degrees"
        rho = 1 / value_at(self.step_size, n)
        c = rho if self.penalty is None else self.penalty
        (mixed,) = network.mix(n, w)
        apart = c * (w - mixed)
        dual = dual + apart
        scale = (2 * c * self.degrees[problem.rows] + rho).astype(w.dtype)
        return DLMState(n + 1, w - (problem.average_gradient(w) + dual + apart) / scale[:, None], dual)
