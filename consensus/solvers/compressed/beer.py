"""BEER."""

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


class BEERState(NamedTuple):
    """Iterates w, trackers y, local gradients, all (agents, P), and what neighbours know of the iterates and the trackers."""

    round: int
    w: np.ndarray
    y: np.ndarray
    gradient: np.ndarray
    known_w: Memory
    known_y: Memory


@dataclass(frozen=True)
class BEER(CompressedMethod):
    """Gradient tracking by compressed differences: iterates and trackers move towards what the neighbours are known to have.

    On the average form ``f_i = A g_i + r`` with G(X) the stacked gradients, W the mixing matrix; before the first round H and S
    are zero, V is G(X):

        X+ = X + gamma (W - I) H - alpha V                      H+ = H + b Q(X+ - H)
        V+ = V + gamma (W - I) S + G(X+) - G(X)                 S+ = S + b Q(V+ - S)

    Both messages of a round travel together. ``mean(V) = mean(G)`` at every round, so that, unlike :class:`ChocoSGD`, it ends
    at the optimum of convex f_i, and at a stationary point of nonconvex ones, however different they are. It needs a static W
    and a smooth r; on a graph that changes H and S are not what neighbours know, and they never agree.

    Parameters
    ----------
    compressor : Compressor
        Q, and with it b, as of :class:`ChocoSGD`.
    step_size : float or rule, optional
        alpha > 0. ``gamma / (4 L)`` is the default without a batch, L the largest Lipschitz constant of the grad f_i: stable on
        all networks and with all compressors tried. Theory has alpha of the order of gamma (1 - rho)^2 / L.
    gamma : float, optional
        The step towards neighbours, in (0, 1]; ``min(1, omega / (1 - lmin(W)))`` by default, omega the compressor's, lmin
        the least eigenvalue of W: found by trying, as of :class:`ChocoSGD`. Theory has a gamma of the order of omega (1 - rho).
    batch : int or Minibatches, optional
        G from so many samples of each agent in every round, those of the round at which X+ is the iterate; by default all.

    References
    ----------
    Zhao, Li, Li, Richtarik, Chi, "BEER: fast O(1/T) rate for decentralized nonconvex optimization with communication
    compression", NeurIPS 2022, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.compression import TopK
    >>> from consensus.solvers import BEER
    >>> centres = np.arange(5.0)[:, None] * np.ones(10)
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=10,
    ...     lipschitz=2.0)
    >>> result = consensus.solve(problem, topologies.ring(5), BEER(TopK(0.3)), rounds=3000, record_every=100)
    >>> bool(abs(result.w - 2).max() < 1e-10)
    True
    """

    needs = Needs(regularizer="smooth", static=True)
    sends = "w, y"
    default = "gamma / (4 L)"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return self.cautious_step(problem, network)

    def init(self, problem: BaseProblem, w: np.ndarray) -> BEERState:
        gradient = _checks.problem(problem).average_gradient(w, draw(self.batch, problem, 0))
        return BEERState(0, w, gradient, gradient, Memory.empty(w), Memory.empty(w))

    def step(self, problem: BaseProblem, network: Network, state: BEERState) -> BEERState:
        n, w, y, gradient, known_w, known_y = state
        w = w + self.gamma * known_w.pull() - value_at(self.step_size, n) * y
        new = problem.average_gradient(w, draw(self.batch, problem, n + 1))
        y = y + self.gamma * known_y.pull() + new - gradient
        news_w, news_y = self.send(problem, network, n, w - known_w.sent, y - known_y.sent)
        share = self.share(problem)
        return BEERState(n + 1, w, y, new, known_w.plus(news_w, share), known_y.plus(news_y, share))
