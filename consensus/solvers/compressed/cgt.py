"""Compressed gradient tracking."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.problems.minibatches import draw
from consensus.solvers.compressed.method import CompressedMethod, Memory
from consensus.solvers.needs import Needs
from consensus.step_sizes import value_at
from topologies.schedules import ScheduleLike


class CGTState(NamedTuple):
    """Iterates w, trackers y, local gradients, all (agents, P), and what is known of the iterates and the trackers."""

    round: int
    w: np.ndarray
    y: np.ndarray
    gradient: np.ndarray
    known_w: Memory
    known_y: Memory


@dataclass(frozen=True)
class CGT(CompressedMethod):
    """Gradient tracking by compressed differences, of what there is before the round's step.

    On the average form ``f_i = A g_i + r`` with G(X) the stacked gradients, W the mixing matrix; before the first round H and S
    are zero, Y is G(X):

        U = H + Q(X - H)            X+ = X + gamma (W - I) U - alpha Y                      H+ = (1 - b) H + b U
        V = S + Q(Y - S)            Y+ = Y + gamma (W - I) V + G(X+) - G(X)                 S+ = (1 - b) S + b V

    Both messages of a round travel together. ``mean(Y) = mean(G)`` at every round. :class:`BEER` mixes H and S in place of U
    and V, and sends after its step. It needs a static W and a smooth r; on a graph that changes H and S are not what neighbours
    know, and they never agree. The paper's theory is of strongly convex f_i; the method runs on others, too.

    Parameters
    ----------
    compressor : Compressor
        Q, and with it b, as of :class:`ChocoSGD`.
    step_size : float or rule, optional
        alpha > 0; without a batch ``gamma / (4 L)`` by default, as of :class:`BEER`.
    gamma : float, optional
        The step towards neighbours, in (0, 1]; ``min(1, omega / (1 - lmin(W)))`` by default, as of :class:`BEER`.
    batch : int or Minibatches, optional
        G from so many samples of each agent in every round, those of the round at which X+ is the iterate; by default all.

    References
    ----------
    Liao, Li, Huang, Pu, "A compressed gradient tracking method for decentralized optimization with linear convergence", IEEE
    TAC 67(10), 2022, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.compression import Quantize
    >>> from consensus.solvers import CGT
    >>> centres = np.arange(5.0)[:, None] * np.ones(10)
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=10,
    ...     lipschitz=2.0)
    >>> result = consensus.solve(problem, topologies.ring(5), CGT(Quantize(4)), rounds=1000, record_every=100)
    >>> bool(abs(result.w - 2).max() < 1e-10)
    True
    """

    needs = Needs(regularizer="smooth", static=True)
    sends = "w, y"
    default = "gamma / (4 L)"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return self.cautious_step(problem, network)

    def init(self, problem: BaseProblem, w: np.ndarray) -> CGTState:
        gradient = _checks.problem(problem).average_gradient(w, draw(self.batch, problem, 0))
        return CGTState(0, w, gradient, gradient, Memory.empty(w), Memory.empty(w))

    def step(self, problem: BaseProblem, network: Network, state: CGTState) -> CGTState:
        n, w, y, gradient, known_w, known_y = state
        news_w, news_y = self.send(problem, network, n, w - known_w.sent, y - known_y.sent)
        w = w + self.gamma * known_w.plus(news_w).pull() - value_at(self.step_size, n) * y
        new = problem.average_gradient(w, draw(self.batch, problem, n + 1))
        y = y + self.gamma * known_y.plus(news_y).pull() + new - gradient
        share = self.share(problem)
        return CGTState(n + 1, w, y, new, known_w.plus(news_w, share), known_y.plus(news_y, share))
