"""ADMM-tracking gradient."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.bounds import lowest_eigenvalue, step_of_least
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


class ATGState(NamedTuple):
    """Iterates w (agents, P); sums of the edges' variables at the agents, and at their neighbours, both (agents, 2 P)."""

    round: int
    w: np.ndarray
    own: np.ndarray
    others: np.ndarray


@dataclass(frozen=True)
class ATG(Solver):
    """ADMM-tracking gradient: ADMM, not averaging, makes the agents agree on the mean iterate and the mean gradient.

    With f_i = A g_i + r, G(X) the stacked gradients, W the mixing matrix, and Z and Z' at first zero, (agents, 2 P):

        Q = (Y, S) = ((X, G(X)) + Z) / (1 + rho)
        X <- X + gamma (Y - delta S - X)
        Z <- (1 - alpha) Z + alpha (2 rho W Q - Z')          Z' <- (1 - alpha) Z' + alpha (2 rho Q - Z)

    The paper has a variable z_ij for each edge and direction, of which only ``Z_i = sum_j z_ij`` and ``Z'_i = sum_j z_ji``
    matter, and the penalty rho for all edges; here an edge has rho w_ij, and the agent's own weight is an edge to itself. The
    sums lack the robustness of the z_ij to lost messages: W must be static and symmetric. Convex f_i, smooth r; linear
    convergence if strongly so, gamma and delta small.

    Parameters
    ----------
    step_size : float or rule, optional
        Step delta > 0. Quadratics are stable below a bound that depends on the other settings and lmin(W), 6.6 / L or so with
        the defaults, L the largest Lipschitz constant of the grad f_i. The default is 0.9 of that (half for models that are not
        linear), or ``sqrt(2 rho alpha (1 - lambda_2) / (gamma mu L))`` if that is less, mu the mean modulus of convexity,
        lambda_2 the second eigenvalue of W.
    gamma : float
        How far the iterate follows, in (0, 1].
    penalty : float
        Penalty rho > 0, a pure number.
    relaxation : float
        Weight alpha, in (0, 1).

    References
    ----------
    Carnevale, Bastianello, Notarstefano, Carli, "ADMM-tracking gradient for distributed optimization over asynchronous and
    unreliable networks", IEEE TAC 70(8), 2025, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import ATG
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), ATG(step_size=0.1), rounds=300).mean.round(9)
    array([2.])
    """

    step_size: float | Rule | None = None
    gamma: float = field(default=0.5, metadata={"above": 0, "most": 1})
    penalty: float = field(default=3.0, metadata={"above": 0})
    relaxation: float = field(default=0.9, metadata={"above": 0, "below": 1})

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "y, s"
    default = "by L, mu and W"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        most = _most(self.gamma, self.penalty, self.relaxation, lowest_eigenvalue(network))
        scale = 2 * self.penalty * self.relaxation / self.gamma
        return step_of_least(problem, network, 0.9 * most, 0.5 * most, lambda slow: math.sqrt(scale * slow))

    def init(self, problem: BaseProblem, w: np.ndarray) -> ATGState:
        none = np.zeros((len(w), 2 * w.shape[1]), w.dtype)
        return ATGState(0, w, none, none)

    def step(self, problem: BaseProblem, network: Network, state: ATGState) -> ATGState:
        n, w, own, others = state
        rho, alpha, parameters = self.penalty, self.relaxation, w.shape[1]
        q = (np.concatenate([w, problem.average_gradient(w)], axis=1) + own) / (1 + rho)
        y, s = q[:, :parameters], q[:, parameters:]
        (mixed,) = network.mix(n, q)
        w = w + self.gamma * (y - value_at(self.step_size, n) * s - w)
        z = (1 - alpha) * own + alpha * (2 * rho * mixed - others)
        return ATGState(n + 1, w, z, (1 - alpha) * others + alpha * (2 * rho * q - own))


def _most(gamma: float, rho: float, alpha: float, lowest: float) -> float:
    """Find the least x = delta h, of at most 1000, for which a root z is on the unit circle, with an l in [lowest, 1)."""
    # With l = 1 the root 1 is that of sums that stay zero; an agent alone has no other.
    values = np.linspace(min(lowest, 0.5), 1, 50)[:-1]
    b = np.array([1, alpha - 1])
    square = np.convolve(b, b) - [0, 0, alpha**2]
    held = (1 + rho) * square - 2 * rho * alpha * (np.outer(values, [0, *b]) - [0, 0, alpha])
    follow = np.array([np.convolve([1, gamma - 1], row) for row in held])

    def stable(x: float) -> bool:
        cubic = follow - gamma * (1 - x) * np.array([0, *square])
        companion = np.tile(np.eye(3, k=-1), (len(values), 1, 1))
        companion[:, 0] = -cubic[:, 1:] / cubic[:, :1]
        return bool(np.abs(np.linalg.eigvals(companion)).max() < 1)

    low, high = 0.0, 1e-3
    while high < 1e3 and stable(high):
        low, high = high, 1.1 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low
