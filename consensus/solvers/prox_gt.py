"""Proximal gradient tracking."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.bounds import gap, lowest_eigenvalue, steepest
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike, is_static


class ProxGTState(NamedTuple):
    """Iterates w, and the excess of the trackers over the local gradients, ``Y / A - grad g``; both (agents, P)."""

    round: int
    w: np.ndarray
    excess: np.ndarray


@dataclass(frozen=True)
class ProxGT(Solver):
    """Proximal gradient steps along a tracked gradient, for any convex r and nonconvex g_i.

    G stacks the gradients of ``A g_i``, and Y_0 = G(X_{-1}) = 0:

        Y+ = W (Y + G(X) - G(X before)),   X+ = W prox_{alpha r}(X - alpha Y+) .

    W is doubly stochastic and may change; the paper's is fixed, and on average over k rounds the squared stationarity falls as
    1 / k there. The agents send Y / A, then X. The paper has W^q for W, q of order 1 / (1 - rho), for an
    iteration count that does not depend on the network: ``Gossip(ProxGT(), q)``.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0, of order 1 / L, with L the largest of the Lipschitz constants of the A grad g_i. By default half the
        bound of :class:`consensus.solvers.GradientTracking` ("atc").

    References
    ----------
    Xin, Das, Khan, Kar, "A stochastic proximal gradient framework for decentralized non-convex composite optimization",
    arXiv 2110.01594, 2021, Algorithm 1, with whole gradients.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import ProxGT
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1) / 2, lambda w: w - centres, agents=5, parameters=1,
    ...     regularizer=consensus.L1(2.0), lipschitz=1.0)
    >>> consensus.solve(problem, topologies.ring(5), ProxGT(), rounds=300).mean.round(9)
    array([1.6])
    """

    step_size: float | Rule | None = None

    needs = Needs(regularizer="prox")
    exchanges_a_round = 2
    sends = "w, y"
    default = "by L and lmin"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        lowest = min(lowest_eigenvalue(network), 0.0)
        bound = min(2.0, (1 + lowest) ** 2 / (2 * lowest**2)) if lowest else 2.0
        factor = 1.0 if is_static(network) else gap(network) ** 2
        return factor * bound / (2 * steepest(problem, network))

    def init(self, problem: BaseProblem, w: np.ndarray) -> ProxGTState:
        return ProxGTState(0, w, np.zeros_like(w))

    def step(self, problem: BaseProblem, network: Network, state: ProxGTState) -> ProxGTState:
        n, w, excess = state
        alpha = value_at(self.step_size, n)
        gradient = problem.gradient(w)
        (y,) = network.mix(n, excess + gradient)  # Y+ / A
        (w,) = network.mix(n, problem.regularizer.prox(w - alpha * problem.network_size * y, alpha))
        return ProxGTState(n + 1, w, y - gradient)
