"""CHOCO-SGD."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.compression.method import CompressedMethod, Memory, memory_weight
from consensus.problems import BaseProblem
from consensus.problems.minibatches import draw
from consensus.solvers.bounds import refuse_batches, steepest
from consensus.solvers.needs import Needs
from consensus.step_sizes import value_at
from topologies.schedules import ScheduleLike


class ChocoSGDState(NamedTuple):
    """Iterates w (agents, P), and the memory of what was sent of them."""

    round: int
    w: np.ndarray
    known: Memory


@dataclass(frozen=True)
class ChocoSGD(CompressedMethod):
    """Descent on the local costs, then a step towards the memories of the neighbours.

    G stacks the gradients of the average form ``f_i = A g_i + r``, W is the mixing matrix. At first S = 0:

        Z = X - alpha G(X)          S+ = S + b Q(Z - S)          X+ = Z + gamma (W - I) S+

    As :class:`DGD` with ``(1 - gamma) I + gamma W`` for W, it ends with a constant alpha in a neighbourhood of the optimum of
    size O(alpha / gamma). r must be smooth and W static: on a graph that changes, the agents never agree.

    Parameters
    ----------
    compressor : Compressor
        Q with ``omega > 0``, and b = 1; or an unbiased Q, and ``b = omega = 1 / (1 + C)`` with ``E |Q(x) - x|^2 <= C |x|^2``.
    step_size : float or rule, optional
        Step alpha > 0; ``1 / (2 L)`` by default without a batch, L the largest Lipschitz constant of the grad f_i.
    gamma : float, optional
        Step towards neighbours, in (0, 1]; ``min(1, omega / (1 - lmin(W)))`` by default, lmin the least eigenvalue of W. This
        bound is empirical: twice as much diverged for random entries on some networks; that of theory is far smaller.
    batch : int or Minibatches, optional
        Samples of each agent and round from which G is estimated; all by default.

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
    >>> result = consensus.solve(problem, topologies.ring(5), ChocoSGD(TopK(0.3), 1e-2), rounds=300, record_every=100)
    >>> bool(0.6 < abs(result.w - 2).max() < 0.65)
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
        (sent,) = self.send(problem, network, n, half - known.sent)
        known = known.plus(sent, memory_weight(self.compressor, problem.parameters))
        return ChocoSGDState(n + 1, half + self.gamma * known.difference(), known)
