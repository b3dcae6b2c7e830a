"""Compressed gradient tracking."""

from dataclasses import dataclass

from consensus.communication.network import Network
from consensus.compression.method import CompressedTracking, TrackingState, memory_weight
from consensus.problems import BaseProblem
from consensus.problems.minibatches import draw
from consensus.step_sizes import value_at


@dataclass(frozen=True)
class CGT(CompressedTracking):
    """Gradient tracking by compressed differences, sent before the step.

    G stacks the gradients of the average form ``f_i = A g_i + r``, W is the mixing matrix. At first H = S = 0, Y = G(X):

        U = H + Q(X - H)            X+ = X + gamma (W - I) U - alpha Y                      H+ = (1 - b) H + b U
        V = S + Q(Y - S)            Y+ = Y + gamma (W - I) V + G(X+) - G(X)                 S+ = (1 - b) S + b V

    Both messages of a round travel together. ``mean(Y) = mean(G)`` at every round. :class:`BEER` mixes H and S in place of U
    and V. r must be smooth and W static: on a graph that changes, the agents never agree. The theory is of strongly convex f_i.

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
    >>> result = consensus.solve(problem, topologies.ring(5), CGT(Quantize(4)), rounds=200, record_every=100)
    >>> bool(abs(result.w - 2).max() < 1e-10)
    True
    """

    def step(self, problem: BaseProblem, network: Network, state: TrackingState) -> TrackingState:
        n, w, y, gradient, known_w, known_y = state
        sent_w, sent_y = self.send(problem, network, n, w - known_w.sent, y - known_y.sent)
        w = w + self.gamma * known_w.plus(sent_w).difference() - value_at(self.step_size, n) * y
        new = problem.average_gradient(w, draw(self.batch, problem, n + 1))
        y = y + self.gamma * known_y.plus(sent_y).difference() + new - gradient
        b = memory_weight(self.compressor, problem.parameters)
        return TrackingState(n + 1, w, y, new, known_w.plus(sent_w, b), known_y.plus(sent_y, b))
