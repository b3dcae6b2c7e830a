"""Push-DIGing: gradient tracking over directed graphs by column stochastic matrices."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at


class PushDIGingState(NamedTuple):
    """Iterates w, pushed sums u, trackers y, local gradients grad f_i, all (agents, P); masses (agents, 1)."""

    round: int
    w: np.ndarray
    u: np.ndarray
    y: np.ndarray
    mass: np.ndarray
    gradient: np.ndarray


@dataclass(frozen=True)
class PushDIGing(Solver):
    """Gradient tracking with push-sum: C column stochastic, directed and time-varying.

    On the average form ``f_i = A g_i + r`` with V the diagonal matrix of the masses, V0 = I, U0 = X0, Y0 = G(X0):

        U+ = C (U - alpha Y),   V+ = C V,   X+ = V+^-1 U+,   Y+ = C Y + G(X+) - G(X) .

    ``sum_i y_i = sum_i grad f_i(x_i)`` and ``sum_i v_i = A`` at every round.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0, small: linear convergence on strongly convex problems.

    References
    ----------
    Nedic, Olshevsky, Shi, "Achieving geometric convergence for distributed optimization over time-varying graphs", SIAM J.
    Optim. 27(4), 2017, Algorithm 2.

    Examples
    --------
    >>> import networkx as nx, numpy as np, consensus, topologies
    >>> from consensus.solvers import PushDIGing
    >>> centres = np.arange(4.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=4, parameters=1)
    >>> graph = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    >>> network = topologies.Static(graph, weights=topologies.push)
    >>> consensus.solve(problem, network, PushDIGing(0.02), rounds=400).w[:, 0].round(6).tolist()
    [1.5, 1.5, 1.5, 1.5]
    """

    step_size: float | Rule

    needs = Needs(regularizer="smooth", mixing="column stochastic")
    exchanges_a_round = 1
    sends = "mass, u, y"

    def init(self, problem: BaseProblem, w: np.ndarray) -> PushDIGingState:
        gradient = _checks.problem(problem).average_gradient(w)
        return PushDIGingState(0, w, w, gradient, np.ones((len(w), 1), w.dtype), gradient)

    def step(self, problem: BaseProblem, network: Network, state: PushDIGingState) -> PushDIGingState:
        n, _, u, y, mass, gradient = state
        mass, u, y = network.mix(n, mass, u - value_at(self.step_size, n) * y, y)
        w = u / mass
        new = problem.average_gradient(w)
        return PushDIGingState(n + 1, w, u, y + new - gradient, mass, new)
