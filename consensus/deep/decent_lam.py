"""DecentLaM: momentum that does not add to the bias of decentralised descent."""

from dataclasses import dataclass

from consensus.communication.network import Network
from consensus.deep.momentum import MomentumMethod, MomentumState
from consensus.problems import BaseProblem
from consensus.problems.minibatches import draw
from consensus.solvers.needs import Needs
from consensus.step_sizes import positive_at


@dataclass(frozen=True)
class DecentLaM(MomentumMethod):
    """Decentralised descent with momentum of the whole update, mixing and gradient.

    G stacks the gradients of the average form ``f_i = A g_i + r``, and M_0 = 0:

        D = (X - W (X - alpha G(X))) / alpha ,     M+ = beta M + D ,     X+ = X - alpha M+ .

    It is the heavy ball on ``X = W (X - alpha G(X))``: at a constant alpha it has the bias of :class:`DGD`, while momentum of
    the gradients alone has several times as much. W is static and symmetric: with complex eigenvalues the heavy ball diverges
    at any step. The f_i may be nonconvex.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0. Equal quadratics of curvature L are stable for ``alpha L < 2 (1 + beta)`` and, if the least eigenvalue
        l of W is negative, ``alpha L < (1 - l) / |l|``.
    batch : int or Minibatches, optional
        Samples of each agent and round from which G is estimated; all by default.
    momentum : float
        Weight beta of the past, in [0, 1).

    References
    ----------
    Yuan, Chen, Huang, Zhang, Pan, Xu, Yin, "DecentLaM: decentralized momentum SGD for large-batch deep training", ICCV 2021,
    Algorithm 2.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import DecentLaM
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), DecentLaM(0.001), rounds=500).mean.round(6)
    array([2.])
    """

    needs = Needs(regularizer="smooth", mixing="symmetric", static=True)

    def step(self, problem: BaseProblem, network: Network, state: MomentumState) -> MomentumState:
        n, w, m = state
        alpha, beta = positive_at(self.step_size, n), self.momentum
        (mixed,) = network.mix(n, problem.descended(w, alpha, w, draw(self.batch, problem, n)))
        m = beta * m + (w - mixed) / alpha
        return MomentumState(n + 1, w - alpha * m, m)
