"""GT-VR: gradient tracking with variance reduction by snapshots."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.base import Solver
from consensus.solvers.coin import heads
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at


class GTVRState(NamedTuple):
    """Iterates w, trackers y, estimates v, the snapshots and the whole gradients there: all (agents, P)."""

    round: int
    w: np.ndarray
    y: np.ndarray
    v: np.ndarray
    snapshot: np.ndarray
    whole: np.ndarray


@dataclass(frozen=True)
class GTVR(Solver):
    """Gradient tracking over SVRG's estimates without its two loops: a coin decides when a snapshot is taken.

    G(X) stacks the gradients of the average form ``f_i = A g_i + r``, G(X; k) those from the batches of round k. With T(0) =
    X(0) and Y(0) = V(0) = G(X(0)),

        X+ = W (X - alpha Y) ,
        T+ = X+ with probability p, else T ,
        V+ = G(X+; k+1) - G(T+; k+1) + G(T+) ,
        Y+ = W (Y + V+ - V) .

    Both gradients from a batch are of the same samples. With a constant step the agents reach a stationary point, linearly if U
    is strongly convex. W is doubly stochastic, the f_i may be nonconvex, and their gradients differ by any amount. In the paper
    each agent flips its own coin; here all share one, drawn from the seed and the round, as in :class:`ProxSkip`.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0.
    batch : int or Minibatches, optional
        Samples of each agent and round; all by default.
    probability : float
        Probability p of a snapshot, in (0, 1]; snapshots cost as much as batches if p is the batch's fraction of a shard.
    seed : int
        Seed of the coin, >= 0.

    References
    ----------
    Jiang, Zeng, Sun, Chen, "Distributed stochastic gradient tracking algorithm with variance reduction for non-convex
    optimization", IEEE Trans. Neural Networks and Learning Systems 34(9), 2023, Algorithm 1. Its kin with two loops is GT-SVRG:
    Xin, Khan, Kar, "Variance-reduced decentralized stochastic optimization with accelerated convergence", IEEE Trans. Signal
    Process. 68, 2020.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import GTVR
    >>> X, y = np.arange(40.0).reshape(20, 2) / 20, np.arange(20.0) / 20
    >>> shards = consensus.partition(X, y, agents=5, scheme="sorted")
    >>> problem = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    >>> solver = GTVR(0.1, batch=1, probability=0.25)
    >>> result = consensus.solve(problem, topologies.ring(5), solver, rounds=800, record_every=100)
    >>> bool(result.history["stationarity"][-1] < 1e-9)
    True
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None
    probability: float = field(default=0.1, metadata={"above": 0, "most": 1})
    seed: int = field(default=0, metadata={"count": 0})

    needs = Needs(regularizer="smooth", deterministic=True)
    exchanges_a_round = 2
    sends = "w, y"

    def snaps(self, round: int) -> bool:
        """Return whether the iterates of a round become snapshots.

        Parameters
        ----------
        round : int
            Number of the round, >= 0.

        Returns
        -------
        bool
            The same at all agents.
        """
        return heads(self.seed, _checks.count("round", round, least=0), self.probability)

    def init(self, problem: BaseProblem, w: np.ndarray) -> GTVRState:
        whole = _checks.problem(problem).average_gradient(w)
        return GTVRState(0, w, whole, whole, w, whole)

    def step(self, problem: BaseProblem, network: Network, state: GTVRState) -> GTVRState:
        n, w, y, v, snapshot, whole = state
        alpha = value_at(self.step_size, n)
        (w,) = network.mix(n, w - alpha * y)
        if self.snaps(n + 1):
            snapshot, new = w, problem.average_gradient(w)  # what the batch says of both points is the same
            whole = new
        else:
            batch = draw(self.batch, problem, n + 1)
            new = problem.average_gradient(w, batch) - problem.average_gradient(snapshot, batch) + whole
        (y,) = network.mix(n, y + new - v)
        return GTVRState(n + 1, w, y, new, snapshot, whole)
