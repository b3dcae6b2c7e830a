"""Decentralised ADMM."""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.local import Exact
from consensus.local.exact import newton_directions
from consensus.problems import BaseProblem, has_model
from consensus.solvers.base import Solver, settled
from consensus.solvers.bounds import middle_curvature, six_digits, slowness, steepest
from consensus.solvers.needs import Needs
from consensus.solvers.successive_convex import solve_counted
from consensus.surrogates import PartialLinearization, Surrogate
from topologies.schedules import ScheduleLike

_TOLERANCE = 1e-10  # of the local solves, relative to the residual before them
_ROUNDS = 50  # for which a gradient is enough where it is linear in w; the nearer it is, the less the solves' errors matter


class DADMMState(NamedTuple):
    """Iterates ``w``, dual variables of the agents' disagreement, where gradients of f_i were taken, and these: (agents, P)."""

    round: int
    w: np.ndarray
    dual: np.ndarray
    known: np.ndarray
    gradient: np.ndarray


@dataclass(frozen=True)
class DADMM(Solver):
    """Decentralised alternating direction method of multipliers: every agent minimises its whole cost in every round.

    On the average form ``f_i = A g_i + r``, with W the mixing matrix, and U before the first round zero:

        U <- U + c (I - W) X
        x_i <- argmin_v  f_i(v) + u_i . v + c |v - (x_i + sum_j w_ij x_j) / 2|^2

    An edge has the penalty c w_ij where the paper gives all edges the same, and the agent's own weight is an edge to itself. r
    may be any convex one with a prox. A model that is not linear is linearised at x_i inside its loss, which leaves the limit
    points as they are. It needs a static symmetric W and convex f_i; then any c > 0 converges, linearly if the f_i are strongly
    convex and smooth.

    If a linear model's costs are quadratic, an agent keeps the inverse of their Hessian plus 2 c, takes a gradient in every
    50th round alone, and computes the minimisers from it.

    Parameters
    ----------
    penalty : float, optional
        Penalty c; by default ``sqrt(mu L / (2 (1 - lambda_2)))``, with L the largest Lipschitz constant of the grad f_i, mu
        their mean modulus of convexity, at least L / 10^4, and lambda_2 the second largest eigenvalue of W: for equal
        quadratics the mean then converges as fast as disagreement shrinks.

    References
    ----------
    Shi, Ling, Yuan, Wu, Yin, "On the linear convergence of the ADMM in decentralized consensus optimization", IEEE TSP 62(7),
    2014, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> X, y = np.eye(4), np.array([1.0, 2.0, 3.0, 4.0])
    >>> shards = consensus.partition(X, y, agents=2)
    >>> problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards, consensus.L1(0.1))
    >>> result = consensus.solve(problem, topologies.path(2), consensus.solvers.DADMM(penalty=0.1), rounds=60)
    >>> bool(result.history["stationarity"][-1] < 1e-3)
    True
    """

    penalty: float | None = field(default=None, metadata={"above": 0})

    needs = Needs(convex=True, model=True, exact=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "by L, mu and W"

    def check(self, problem: BaseProblem) -> None:
        Exact().check(self._surrogate(self.penalty or 1.0), _checks.problem(problem))

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        # 1 / (2 c) with the default penalty c: all steps of the prox are stable
        return math.sqrt(slowness(network) / 2) / middle_curvature(problem, steepest(problem, network))

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        if self.penalty is not None:
            return self
        return replace(self, penalty=six_digits(1 / (2 * self.stable_step(problem, network))))

    def init(self, problem: BaseProblem, w: np.ndarray) -> DADMMState:
        return DADMMState(0, w, np.zeros_like(w), w, np.zeros_like(w))

    def step(self, problem: BaseProblem, network: Network, state: DADMMState) -> DADMMState:
        n, w, dual, known, gradient = state
        c = settled(self.penalty, "penalty")
        (mixed,) = network.mix(n, w)
        coupling = c * (w - mixed)
        dual = dual + coupling
        linear_system = has_model(problem) and problem.loss.quadratic and problem.regularizer.quadratic
        if linear_system:
            if n % _ROUNDS == 0 or not problem.model.jacobian_is_constant:
                known, gradient = w, problem.average_gradient(w)
            slope = gradient + dual + c * (2 * known - w - mixed)
            new = known - newton_directions(problem, known, slope, 2 * c)
            return DADMMState(n + 1, new, dual, known, gradient)
        # In the surrogate all of A g_i is kept, and c |v - x_i|^2; the linear term moves that to where it belongs.
        own = problem.gradient(w)
        model = self._surrogate(c).at(problem, w, own)
        linear = (problem.network_size - 1) * own + dual + coupling
        return DADMMState(n + 1, solve_counted(Exact(), problem, model, linear, w, _TOLERANCE, n), dual, known, gradient)

    @staticmethod
    def _surrogate(penalty: float) -> Surrogate:
        return PartialLinearization(2 * penalty, curvature="network")
