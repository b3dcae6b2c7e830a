"""GUT: tracking of the network's update by one vector a round."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, positive_at


class GUTState(NamedTuple):
    """Iterates w, those of the round before, and the local updates; all (agents, P)."""

    round: int
    w: np.ndarray
    before: np.ndarray
    update: np.ndarray


@dataclass(frozen=True)
class GUT(Solver):
    """Global update tracking: agents follow the network's whole update, gradients and mixing, and send one vector.

    G stacks the gradients of the average form ``f_i = A g_i + r``. With Y(-1) = D(-1) = 0 and X(-1) = X(0),

        D(k) = G(W X(k)) + (X(k) - W X(k)) / alpha ,
        Y(k) = D(k) + mu (W Y(k-1) - D(k-1) + (X(k-1) - W X(k-1)) / alpha) ,     X(k+1) = X(k) - alpha Y(k) .

    The bracket is ``(X(k-1) - W X(k)) / alpha - D(k-1)``, because ``X(k) = X(k-1) - alpha Y(k-1)``: X(k) is all that is sent.
    ``sum_i y_i(k) = sum_i grad f_i((W X(k))_i)`` in every round. mu = 0 is
    :class:`DGD` with gradients at W X. At a constant alpha the agents come to the points where DGD with the step (1 - mu) alpha
    does: a bias smaller by the factor 1 - mu, at the price of one vector a round, not two as in :class:`GradientTracking`.

    W is doubly stochastic and fixed in its theory. The f_i may be nonconvex.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0.
    batch : int or Minibatches, optional
        Samples of each agent and round; all by default.
    tracking : float
        The factor mu, in [0, 1), the scaling of the paper.

    References
    ----------
    Aketi, Hashemi, Roy, "Global update tracking: a decentralized learning algorithm for heterogeneous data", NeurIPS 2023,
    Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import GUT
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), GUT(0.01), rounds=500).mean.round(6)
    array([2.])
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None
    tracking: float = field(default=0.5, metadata={"least": 0, "below": 1})

    needs = Needs(regularizer="smooth", static=True)
    exchanges_a_round = 1
    sends = "w"

    def init(self, problem: BaseProblem, w: np.ndarray) -> GUTState:
        return GUTState(0, w, w, np.zeros_like(w))

    def step(self, problem: BaseProblem, network: Network, state: GUTState) -> GUTState:
        n, w, before, old = state
        alpha, last = positive_at(self.step_size, n), positive_at(self.step_size, max(n - 1, 0))
        (mixed,) = network.mix(n, w)
        update = problem.average_gradient(mixed, draw(self.batch, problem, n)) + (w - mixed) / alpha
        y = update + self.tracking * ((before - mixed) / last - old)
        return GUTState(n + 1, w - alpha * y, w, update)
