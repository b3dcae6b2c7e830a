"""DSGDm: decentralised descent with each agent's own momentum."""

from dataclasses import dataclass

from consensus.communication.network import Network
from consensus.deep.momentum import MomentumMethod, MomentumState
from consensus.problems import BaseProblem
from consensus.problems.minibatches import draw
from consensus.solvers.needs import Needs
from consensus.step_sizes import positive_at


@dataclass(frozen=True)
class DSGDm(MomentumMethod):
    """Descend along a running average of an agent's own gradients, then average with the neighbours.

    G stacks the gradients of the average form ``f_i = A g_i + r``, and M_0 = 0:

        M+ = beta M + (1 - beta) G(X) ,     X+ = W (X - alpha M+) .

    With batches M+ has about (1 - beta) / (1 + beta) of a gradient's variance. It is the worker momentum of Byzantine-robust
    methods: wrap it in a rule of :mod:`consensus.robust`. Like :class:`DGD` it has a bias at a constant alpha; the momentum of
    :class:`QGDSGDm` and :class:`DecentLaM` is designed for agents with different data.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0.
    batch : int or Minibatches, optional
        Samples of each agent and round from which G is estimated; all by default.
    momentum : float
        Weight beta of the past, in [0, 1).

    References
    ----------
    Karimireddy, He, Jaggi, "Learning from history for Byzantine robust optimization", ICML 2021 (with a server); Farhadkhani,
    Guerraoui, Gupta, Hoang, Pinot, Stephan, "Robust collaborative learning with linear gradient overhead", ICML 2023 (MoNNA:
    with :class:`consensus.robust.NNA` for W); He, Karimireddy, Jaggi, "Byzantine-robust decentralized learning via
    ClippedGossip", arXiv 2202.01545, 2022 (with :class:`consensus.robust.ClippedGossip`).

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import DSGDm
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), DSGDm(0.01), rounds=500).mean.round(6)
    array([2.])
    """

    needs = Needs(regularizer="smooth")

    def step(self, problem: BaseProblem, network: Network, state: MomentumState) -> MomentumState:
        n, w, m = state
        alpha, beta = positive_at(self.step_size, n), self.momentum
        m = beta * m + (1 - beta) * problem.average_gradient(w, draw(self.batch, problem, n))
        (w,) = network.mix(n, w - alpha * m)
        return MomentumState(n + 1, w, m)
