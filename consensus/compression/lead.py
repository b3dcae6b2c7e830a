"""LEAD: a primal-dual method with compressed differences."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.compression.method import CompressedMethod, Memory, memory_weight
from consensus.problems import BaseProblem
from consensus.problems.minibatches import draw
from consensus.solvers.bounds import refuse_batches, spread, steepest
from consensus.solvers.needs import Needs
from consensus.step_sizes import value_at
from topologies.schedules import ScheduleLike


class LEADState(NamedTuple):
    """Iterates w and dual variables, both (agents, P), and the memory of what was sent."""

    round: int
    w: np.ndarray
    dual: np.ndarray
    known: Memory


@dataclass(frozen=True)
class LEAD(CompressedMethod):
    """A gradient step, corrected by a dual variable that adds up the differences between neighbours' memories.

    G stacks the gradients of the average form ``f_i = A g_i + r``, W is the mixing matrix. At first D = H = 0:

        Y = X - alpha G(X) - alpha D          U = H + Q(Y - H)          H+ = (1 - b) H + b U
        D+ = D + (gamma / (2 alpha)) (I - W) U                          X+ = X - alpha G(X) - alpha D+

    ``sum_i d_i = 0`` at every round; with gamma = 1 and no compression it is NIDS without a prox. r must be smooth, W static
    and symmetric. Theory proves linear convergence for strongly convex f_i and an unbiased Q; other Q cause a warning.

    Parameters
    ----------
    compressor : Compressor
        Q, which determines b: see :class:`ChocoSGD`.
    step_size : float or rule, optional
        Step alpha > 0; 1 / L by default without a batch, L the largest Lipschitz constant of the grad f_i. Theory allows
        ``2 / (mu + L)``.
    gamma : float, optional
        Step of the dual, in (0, 1]; ``min(1, 2 / ((3 C + 1) (1 - lmin(W))))`` by default, one of the bounds of theory, with
        ``E |Q(x) - x|^2 <= C |x|^2``, or ``C = 1 / omega - 1`` if Q is biased. Another bound is of the order of mu / (C L).
    batch : int or Minibatches, optional
        Samples of each agent and round from which G is estimated; all by default.

    References
    ----------
    Liu, Li, Wang, Tang, Yan, "Linear convergent decentralized optimization with compression", ICLR 2021, Algorithm 1;
    its convergence theorem bounds gamma.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.compression import Quantize
    >>> from consensus.solvers import LEAD
    >>> centres = np.arange(5.0)[:, None] * np.ones(10)
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=10,
    ...     lipschitz=2.0)
    >>> result = consensus.solve(problem, topologies.ring(5), LEAD(Quantize(2)), rounds=500, record_every=100)
    >>> bool(abs(result.w - 2).max() < 1e-10)
    True
    """

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    sends = "w"
    default = "1 / L"

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        if not self.compressor.unbiased:
            _checks.warn(f"LEAD's theory needs an unbiased compressor, and {self.compressor} is not")

    def gamma_for(self, omega: float, network: ScheduleLike) -> float:
        return min(1.0, 2 / ((3 / omega - 2) * spread(network)))

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        refuse_batches(self)
        return 1 / steepest(problem, network)

    def init(self, problem: BaseProblem, w: np.ndarray) -> LEADState:
        return LEADState(0, w, np.zeros_like(w), Memory.empty(w))

    def step(self, problem: BaseProblem, network: Network, state: LEADState) -> LEADState:
        assert self.gamma is not None, "prepared finds it"
        n, w, dual, known = state
        alpha = value_at(self.step_size, n)
        down = problem.descended(w, alpha, w, draw(self.batch, problem, n))
        (sent,) = self.send(problem, network, n, down - alpha * dual - known.sent)
        dual = dual - self.gamma / (2 * alpha) * known.plus(sent).difference()
        return LEADState(n + 1, down - alpha * dual, dual, known.plus(sent, memory_weight(self.compressor, problem.parameters)))
