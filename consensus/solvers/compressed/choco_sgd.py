"""CHOCO-SGD."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.problems.minibatches import draw
from consensus.solvers.bounds import refuse_batches, steepest
from consensus.solvers.compressed.method import CompressedMethod, Memory
from consensus.solvers.needs import Needs
from consensus.step_sizes import value_at
from topologies.schedules import ScheduleLike


class ChocoSGDState(NamedTuple):
    """Iterates w (agents, P), and what neighbours know of them."""

    round: int
    w: np.ndarray
    known: Memory


@dataclass(frozen=True)
class ChocoSGD(CompressedMethod):
    """Descent on the local costs, then a step towards what the neighbours are known to have.

    On the average form ``f_i = A g_i + r`` with G(X) the stacked gradients, W the mixing matrix, S before the first round zero:

        Z = X - alpha G(X)          S+ = S + b Q(Z - S)          X+ = Z + gamma (W - I) S+

    It sends Q(Z - S), P numbers for short. As :class:`DGD` with ``(1 - gamma) I + gamma W`` for W it ends, with a constant
    alpha, in a neighbourhood of the optimum of size O(alpha / gamma), not at the optimum. It needs a static W and a smooth r;
    on a graph that changes S is not what neighbours know, and they never agree.

    Parameters
    ----------
    compressor : Compressor
        Q, any with ``omega > 0``, or unbiased: then b is ``1 / (1 + C)`` with ``E |Q(x) - x|^2 <= C |x|^2``, and ``omega = b``.
        Otherwise b is 1.
    step_size : float or rule, optional
        alpha > 0. Without a batch ``1 / (2 L)`` is the default, which shrinks the distance between any two points that descend
        on the same convex cost; L the largest Lipschitz constant of the grad f_i.
    gamma : float, optional
        The step towards neighbours, in (0, 1]; ``min(1, omega / (1 - lmin(W)))`` by default, with the least eigenvalue of W:
        found by trying. Twice that was too much for random entries on some networks, and what theory has for all compressors is
        far smaller.
    batch : int or Minibatches, optional
        G from so many samples of each agent in every round; by default all.

    References
    ----------
    Koloskova, Stich, Jaggi, "Decentralized stochastic optimization and gossip algorithms with compressed communication", ICML
    2019, Algorithm 2.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.compression import TopK
    >>> from consensus.solvers import ChocoSGD
    >>> centres = np.arange(5.0)[:, None] * np.ones(10)
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=10)
    >>> result = consensus.solve(problem, topologies.ring(5), ChocoSGD(TopK(0.3), 1e-3), rounds=3000, record_every=100)
    >>> bool(0.1 < abs(result.w - 2).max() < 0.11)
    True
    """

    needs = Needs(regularizer="smooth", static=True)
    sends = "w"
    default = "1 / (2 L)"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        refuse_batches(self)
        return 1 / (2 * steepest(problem, network))

    def init(self, problem: BaseProblem, w: np.ndarray) -> ChocoSGDState:
        return ChocoSGDState(0, w, Memory.empty(w))

    def step(self, problem: BaseProblem, network: Network, state: ChocoSGDState) -> ChocoSGDState:
        n, w, known = state
        half = problem.descended(w, value_at(self.step_size, n), w, draw(self.batch, problem, n))
        (news,) = self.send(problem, network, n, half - known.sent)
        known = known.plus(news, self.share(problem))
        return ChocoSGDState(n + 1, half + self.gamma * known.pull(), known)
