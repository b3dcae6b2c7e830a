"""Newton tracking."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.local.newton_directions import newton_directions
from consensus.problems import BaseProblem, has_model
from consensus.solvers.base import Solver
from consensus.solvers.bounds import is_linear, lowest_eigenvalue, middle_curvature, slowness, steepest
from consensus.solvers.needs import Needs
from topologies.schedules import ScheduleLike


class NewtonTrackingState(NamedTuple):
    """Iterates w and the dual variables of the agents' disagreement, both (agents, P)."""

    round: int
    w: np.ndarray
    dual: np.ndarray


@dataclass(frozen=True)
class NewtonTracking(Solver):
    """Every agent follows its own Newton direction of its cost and of what keeps it with its neighbours.

    The paper tracks directions: with G(X) the stacked gradients of ``f_i = A g_i + r``, B_i the Hessian of f_i at x_i, W the
    mixing matrix, and (B_i + e I) u_i = (G(X) + c (I - W) X)_i at first,

        X+ = X - U,       (B+ + e I) U+ = (B + e I) U + G(X+) - G(X) + c (I - W)(2 X+ - X) .

    Summed over the rounds that is, with one vector sent and no Hessian kept,

        V <- V + c (I - W) X          x_i <- x_i - (B_i + e I)^-1 (G(X) + V + c (I - W) X)_i

    with V before the first round -c (I - W) X, for which here stands zero: the same where all agents start alike. Of a model
    that is not linear B_i is the Gauss-Newton matrix. It needs a static symmetric W, r = L2 or none; it converges linearly if
    the f_i are strongly convex.

    Parameters
    ----------
    penalty : float, optional
        c > 0; by default ``e / (1 - lmin(W))``. Quadratics are stable with all that are at most that.
    damping : float, optional
        e > 0; by default ``sqrt(mu L (1 - lmin(W)) / (1 - lambda_2))``, or ``c (1 - lmin(W))`` where a penalty is given. L is
        the largest Lipschitz constant of the grad f_i, mu their mean modulus of convexity, at least L / 10^4, lambda_2 the
        second largest eigenvalue of W. What agents have in common shrinks by e / (mu + e) a round, and what they differ in by
        ``1 - c (1 - lambda_2) / L`` or so, with the default by as much. Where the Hessians are not constant the default is at
        least L/4, and L for models that are not linear.

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

    penalty: float | None = None
    damping: float | None = None

    needs = Needs(regularizer="smooth", convex=True, model=True, loss=("curvature_root",), mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "by L, mu and W"

    def __post_init__(self) -> None:
        for name in ("penalty", "damping"):
            object.__setattr__(self, name, _checks.optional_number(name, getattr(self, name), above=0))

    def check(self, problem: BaseProblem) -> None:
        r = _checks.problem(problem).regularizer
        if not r.quadratic:
            raise TypeError(f"NewtonTracking needs the Hessian of r, and knows that of L2 alone; got {r}")

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        """1 / e with the default damping e: the step where a cost has no curvature."""
        L, scale = steepest(problem, network), math.sqrt((1 - lowest_eigenvalue(network)) / slowness(network))
        constant = has_model(problem) and problem.loss.quadratic
        least = L if not is_linear(problem) else 0.0 if constant else L / 4
        return 1 / max(scale * middle_curvature(problem, L), least)

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> "NewtonTracking":
        damping, penalty, most = self.damping, self.penalty, 1 - lowest_eigenvalue(network)
        if damping is None:
            damping = float(f"{1 / self.stable_step(problem, network) if penalty is None else most * penalty:.6g}")
        return replace(self, penalty=float(f"{damping / most:.6g}") if penalty is None else penalty, damping=damping)

    def init(self, problem: BaseProblem, w: np.ndarray) -> NewtonTrackingState:
        return NewtonTrackingState(0, w, np.zeros_like(w))

    def step(self, problem: BaseProblem, network: Network, state: NewtonTrackingState) -> NewtonTrackingState:
        n, w, dual = state
        assert self.penalty is not None, "a prepared solver has its settings"
        assert self.damping is not None, "a prepared solver has its settings"
        (mixed,) = network.mix(n, w)
        apart = self.penalty * (w - mixed)
        dual = dual + apart
        slope = problem.average_gradient(w) + dual + apart
        return NewtonTrackingState(n + 1, w - newton_directions(problem, w, slope, self.damping), dual)
