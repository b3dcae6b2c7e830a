"""Newton tracking."""

import math
from dataclasses import dataclass, field, replace
from typing import Self

from consensus import _checks
from consensus.communication.network import Network
from consensus.local.exact import newton_directions
from consensus.problems import BaseProblem, has_model
from consensus.solvers.base import settled
from consensus.solvers.bounds import is_linear, middle_curvature, six_digits, slowness, spread, steepest
from consensus.solvers.needs import Needs
from consensus.solvers.states import DualSolver, DualState
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class NewtonTracking(DualSolver):
    """Every agent follows the Newton direction of its own cost plus a penalty on the disagreement with its neighbours.

    With G(X) the stacked gradients of ``f_i = A g_i + r``, B_i the Hessian of f_i at x_i, W the mixing matrix, V at first zero:

        V <- V + c (I - W) X          x_i <- x_i - (B_i + e I)^-1 (G(X) + V + c (I - W) X)_i

    The paper's recursion, in directions that are tracked, adds up to this if all agents start alike. If the model is not
    linear, B_i is the Gauss-Newton matrix. It needs a static symmetric W, r = L2 or none; it converges linearly if the f_i are
    strongly convex.

    Parameters
    ----------
    penalty : float, optional
        Penalty c > 0; by default ``e / (1 - lmin(W))``. Quadratics are stable with all that are at most that.
    damping : float, optional
        Damping e > 0; by default ``sqrt(mu L (1 - lmin(W)) / (1 - lambda_2))``, or ``c (1 - lmin(W))`` if a penalty is given. L
        is the largest Lipschitz constant of the grad f_i, mu their mean modulus of convexity, at least L / 10^4, lambda_2 the
        second largest eigenvalue of W. With it the mean converges as fast as disagreement shrinks. If the Hessians are not
        constant the default is at least L/4, and L for models that are not linear.

    References
    ----------
    Zhang, Ling, So, "A Newton tracking algorithm with exact linear convergence rate for decentralized consensus optimization",
    CDC 2020 (arXiv 2008.10157).

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import NewtonTracking
    >>> X, y = np.eye(4), np.array([1.0, 2.0, 3.0, 4.0])
    >>> shards = consensus.partition(X, y, agents=2)
    >>> problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    >>> result = consensus.solve(problem, topologies.path(2), NewtonTracking(penalty=0.1), rounds=200)
    >>> bool(result.history["stationarity"][-1] < 1e-9)
    True
    """

    penalty: float | None = field(default=None, metadata={"above": 0})
    damping: float | None = field(default=None, metadata={"above": 0})

    needs = Needs(
        regularizer="smooth", convex=True, model=True, exact=True, loss=("curvature_root",), mixing="symmetric", static=True
    )
    exchanges_a_round = 1
    sends = "w"
    default = "by L, mu and W"

    def check(self, problem: BaseProblem) -> None:
        r = _checks.problem(problem).regularizer
        if not r.quadratic:
            raise TypeError(f"NewtonTracking needs the Hessian of r, and knows that of L2 alone; got {r}")

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        # 1 / e with the default damping e: the step where a cost has no curvature
        L, scale = steepest(problem, network), math.sqrt(spread(network) / slowness(network))
        constant = has_model(problem) and problem.loss.quadratic
        least = L if not is_linear(problem) else 0.0 if constant else L / 4
        return 1 / max(scale * middle_curvature(problem, L), least)

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        damping, penalty, most = self.damping, self.penalty, spread(network)
        if damping is None:
            damping = six_digits(1 / self.stable_step(problem, network) if penalty is None else most * penalty)
        if penalty is None:
            penalty = six_digits(damping / most)
        return replace(self, penalty=penalty, damping=damping)

    def step(self, problem: BaseProblem, network: Network, state: DualState) -> DualState:
        n, w, dual = state
        (mixed,) = network.mix(n, w)
        coupling = settled(self.penalty, "penalty") * (w - mixed)
        dual = dual + coupling
        slope = problem.average_gradient(w) + dual + coupling
        return DualState(n + 1, w - newton_directions(problem, w, slope, settled(self.damping, "damping")), dual)
