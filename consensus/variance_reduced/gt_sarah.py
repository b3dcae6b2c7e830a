"""GT-SARAH: gradient tracking with recursive variance reduction."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at


class GTSARAHState(NamedTuple):
    """Iterates w, trackers y, estimates v of the gradients at w and their last change, all (agents, P)."""

    round: int
    w: np.ndarray
    y: np.ndarray
    v: np.ndarray
    change: np.ndarray


@dataclass(frozen=True)
class GTSARAH(Solver):
    """Gradient tracking over estimates that add up differences of gradients and restart from whole ones.

    G(X) stacks the gradients of the average form ``f_i = A g_i + r``, G(X; k) those from the batches of round k:

        V(k) = G(X(k))                                          if k is a multiple of the period, otherwise
        V(k) = V(k-1) + G(X(k); k) - G(X(k-1); k) ,
        Y+ = W Y + V(k) - V(k-1),   X+ = W X - alpha Y+ ,        Y(0) = V(-1) = 0 .

    X and Y are sent in one exchange. Both gradients of a round are from the same batch. With a constant step the agents reach a
    stationary point, linearly if U is strongly convex. W is doubly stochastic, the f_i may be nonconvex, and their gradients
    differ by any amount.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0.
    batch : int or Minibatches, optional
        Samples of each agent and round; all by default.
    period : int
        Rounds from one whole gradient to the next; q + 1 in the paper, where q batches are about a shard.

    References
    ----------
    Xin, Khan, Kar, "Fast decentralized nonconvex finite-sum optimization with recursive variance reduction", SIAM J. Optim.
    32(1), 2022, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import GTSARAH
    >>> X, y = np.arange(40.0).reshape(20, 2) / 20, np.arange(20.0) / 20
    >>> shards = consensus.partition(X, y, agents=5, scheme="sorted")
    >>> problem = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    >>> result = consensus.solve(problem, topologies.ring(5), GTSARAH(0.05, batch=1, period=5), rounds=1500, record_every=100)
    >>> bool(result.history["stationarity"][-1] < 1e-9)
    True
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None
    period: int = field(default=10, metadata={"count": 1})

    needs = Needs(regularizer="smooth", deterministic=True)
    exchanges_a_round = 1
    sends = "w, y"

    def init(self, problem: BaseProblem, w: np.ndarray) -> GTSARAHState:
        v = _checks.problem(problem).average_gradient(w)
        return GTSARAHState(0, w, np.zeros_like(w), v, v)

    def step(self, problem: BaseProblem, network: Network, state: GTSARAHState) -> GTSARAHState:
        n, w, y, v, change = state
        mixed_w, mixed_y = network.mix(n, w, y)
        y = mixed_y + change
        after = mixed_w - value_at(self.step_size, n) * y
        if (n + 1) % self.period == 0:
            new = problem.average_gradient(after)
            return GTSARAHState(n + 1, after, y, new, new - v)
        batch = draw(self.batch, problem, n + 1)
        change = problem.average_gradient(after, batch) - problem.average_gradient(w, batch)
        return GTSARAHState(n + 1, after, y, v + change, change)
