"""MoTEF: compressed gradient tracking of momenta."""

from dataclasses import dataclass, field

from consensus.communication.network import Network
from consensus.compression.method import CompressedTracking, TrackingState, memory_weight
from consensus.problems import BaseProblem
from consensus.problems.minibatches import draw
from consensus.step_sizes import value_at


@dataclass(frozen=True)
class MoTEF(CompressedTracking):
    """:class:`BEER` that tracks an average of the last gradients, so that the noise of small batches is averaged out.

    G stacks the gradients of the average form ``f_i = A g_i + r``, W is the mixing matrix. At first H = S = 0, M = V = G(X):

        X+ = X + gamma (W - I) H - alpha V                      H+ = H + b Q(X+ - H)
        M+ = (1 - l) M + l G(X+)
        V+ = V + gamma (W - I) S + M+ - M                       S+ = S + b Q(V+ - S)

    Both messages of a round travel together. ``mean(V) = mean(M)`` at every round. With l = 1 it is BEER. r must be smooth and
    W static; the f_i may be nonconvex, and their gradients differ by any amount.

    Parameters
    ----------
    compressor : Compressor
        Q, which determines b: see :class:`ChocoSGD`.
    step_size : float or rule, optional
        Step alpha > 0; ``gamma / (4 L)`` by default without a batch, L the largest Lipschitz constant of the grad f_i. In
        theory alpha is of the order of gamma (1 - rho)^2 / L.
    gamma : float, optional
        Step towards neighbours, in (0, 1]; ``min(1, omega / (1 - lmin(W)))`` by default, as of :class:`ChocoSGD`.
    batch : int or Minibatches, optional
        Samples of each agent and round from which G(X+) is estimated; all by default.
    momentum : float
        Weight l of the new gradients in the average, in (0, 1]; the default is this package's choice.

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
    >>> result = consensus.solve(problem, topologies.ring(5), MoTEF(TopK(0.3)), rounds=600, record_every=100)
    >>> bool(abs(result.w - 2).max() < 1e-10)
    True
    """

    momentum: float = field(default=0.1, metadata={"above": 0, "most": 1})

    def step(self, problem: BaseProblem, network: Network, state: TrackingState) -> TrackingState:
        n, w, y, average, known_w, known_y = state
        w = w + self.gamma * known_w.difference() - value_at(self.step_size, n) * y
        change = self.momentum * (problem.average_gradient(w, draw(self.batch, problem, n + 1)) - average)
        y = y + self.gamma * known_y.difference() + change
        sent_w, sent_y = self.send(problem, network, n, w - known_w.sent, y - known_y.sent)
        b = memory_weight(self.compressor, problem.parameters)
        return TrackingState(n + 1, w, y, average + change, known_w.plus(sent_w, b), known_y.plus(sent_y, b))
