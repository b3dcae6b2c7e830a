"""MoTEF: compressed gradient tracking of momenta."""

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


class MoTEFState(NamedTuple):
    """Iterates w, trackers y, momenta, all (agents, P), and what neighbours know of the iterates and the trackers."""

    round: int
    w: np.ndarray
    y: np.ndarray
    momentum: np.ndarray
    known_w: Memory
    known_y: Memory


@dataclass(frozen=True)
class MoTEF(CompressedMethod):
    """:class:`BEER` that tracks an average of the last gradients, so that the noise of small batches is averaged out.

    On the average form ``f_i = A g_i + r`` with G(X) the stacked gradients, W the mixing matrix; before the first round H and S
    are zero, M and V are G(X):

        X+ = X + gamma (W - I) H - alpha V                      H+ = H + b Q(X+ - H)
        M+ = (1 - l) M + l G(X+)
        V+ = V + gamma (W - I) S + M+ - M                       S+ = S + b Q(V+ - S)

    Both messages of a round travel together. ``mean(V) = mean(M)`` at every round. With l = 1 it is BEER. It needs a static W
    and a smooth r; f_i may be nonconvex, and as different as they like.

    Parameters
    ----------
    compressor : Compressor
        Q, and with it b, as of :class:`ChocoSGD`.
    step_size : float or rule, optional
        alpha > 0; without a batch ``gamma / (4 L)`` by default, as of :class:`BEER`.
    gamma : float, optional
        The step towards neighbours, in (0, 1]; ``min(1, omega / (1 - lmin(W)))`` by default, omega the compressor's, lmin
        the least eigenvalue of W: found by trying, as of :class:`ChocoSGD`. Theory has a gamma of the order of omega (1 - rho).
    batch : int or Minibatches, optional
        G from so many samples of each agent in every round, those of the round at which X+ is the iterate; by default all.
    momentum : float
        l, in (0, 1], the part of the new gradients in the average; 0.1, the default, is this package's choice.

    References
    ----------
    Islamov, Gao, Stich, "Towards faster decentralized stochastic optimization with communication compression", arXiv
    2405.20114, 2024, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.compression import TopK
    >>> from consensus.solvers import MoTEF
    >>> centres = np.arange(5.0)[:, None] * np.ones(10)
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=10,
    ...     lipschitz=2.0)
    >>> result = consensus.solve(problem, topologies.ring(5), MoTEF(TopK(0.3)), rounds=2000, record_every=100)
    >>> bool(abs(result.w - 2).max() < 1e-10)
    True
    """

    momentum: float = 0.1

    needs = Needs(regularizer="smooth", static=True)
    sends = "w, y"
    default = "gamma / (4 L)"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "momentum", _checks.number("momentum", self.momentum, above=0, most=1))

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return self.cautious_step(problem, network)

    def init(self, problem: BaseProblem, w: np.ndarray) -> MoTEFState:
        gradient = _checks.problem(problem).average_gradient(w, draw(self.batch, problem, 0))
        return MoTEFState(0, w, gradient, gradient, Memory.empty(w), Memory.empty(w))

    def step(self, problem: BaseProblem, network: Network, state: MoTEFState) -> MoTEFState:
        n, w, y, momentum, known_w, known_y = state
        w = w + self.gamma * known_w.pull() - value_at(self.step_size, n) * y
        gradient = problem.average_gradient(w, draw(self.batch, problem, n + 1))
        change = self.momentum * (gradient - momentum)
        y = y + self.gamma * known_y.pull() + change
        news_w, news_y = self.send(problem, network, n, w - known_w.sent, y - known_y.sent)
        share = self.share(problem)
        return MoTEFState(n + 1, w, y, momentum + change, known_w.plus(news_w, share), known_y.plus(news_y, share))
