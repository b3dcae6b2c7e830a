"""SONATA: successive convex approximation over directed, time-varying graphs."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.problems.minibatches import draw
from consensus.solvers.needs import Needs
from consensus.solvers.successive_convex import SuccessiveConvex
from consensus.step_sizes import value_at


class SONATAState(NamedTuple):
    """The fields of :class:`consensus.solvers.next.NEXTState`, and masses (agents, 1)."""

    round: int
    w: np.ndarray
    y: np.ndarray
    mass: np.ndarray
    gradient: np.ndarray
    best: np.ndarray
    average: np.ndarray


@dataclass(frozen=True)
class SONATA(SuccessiveConvex):
    """NEXT's local step over column stochastic matrices: directed graphs, where an agent knows only to how many it sends.

    With z_i as in :class:`NEXT`, every agent carries a mass phi_i, phi_i = 1 at the start, and C is the round's matrix:

        phi_i <- sum_j c_ij phi_j
        w_i   <- (1 / phi_i new) sum_j c_ij phi_j z_j
        y_i   <- (1 / phi_i new) [ sum_j c_ij phi_j y_j + grad g_i(w_i new) - grad g_i(w_i old) ] .

    At every round ``sum_i phi_i = A`` and ``sum_i phi_i y_i = sum_i grad g_i``. Over doubly stochastic matrices the masses
    stay one and this is NEXT. With batches y_i tracks running averages of their gradients, as it does there. The graphs are to
    be jointly strongly connected.

    Parameters
    ----------
    surrogate, step_size, local, tolerance, batch, averaging : as there
        As for :class:`NEXT`.

    References
    ----------
    Scutari, Sun, "Distributed nonconvex constrained optimization over time-varying digraphs", Math. Programming 176, 2019,
    Algorithm 1; Sun, Scutari, Daneshmand, "Distributed optimization based on gradient tracking revisited", SIAM J. Optim.
    32(2), 2022.

    Examples
    --------
    >>> import networkx as nx, numpy as np, consensus, topologies
    >>> from consensus.surrogates import FullLinearization
    >>> from consensus.solvers import SONATA
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> graph = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)])
    >>> network = topologies.Static(graph, weights=topologies.push)
    >>> result = consensus.solve(problem, network, SONATA(FullLinearization(tau=20.0), 0.5), rounds=300)
    >>> result.w.round(6).ravel()
    array([2., 2., 2., 2., 2.])
    """

    needs = Needs(mixing="column stochastic")
    exchanges_a_round = 1
    sends = "mass, w, y"

    def init(self, problem: BaseProblem, w: np.ndarray) -> SONATAState:
        gradient = _checks.problem(problem).gradient(w, draw(self.batch, problem, 0))
        return SONATAState(0, w, gradient, np.ones((len(w), 1), w.dtype), gradient, w, gradient)

    def step(self, problem: BaseProblem, network: Network, state: SONATAState) -> SONATAState:
        n, w, y, mass, _, _, before = state
        best = self.minimise(problem, network, state)
        z = w + value_at(self.step_size, n) * (best - w)
        mass, w, y = network.mix(n, mass, mass * z, mass * y)
        w = w / mass
        gradient = problem.gradient(w, draw(self.batch, problem, n + 1))
        average = self.averaged(problem, before, gradient, n + 1)
        return SONATAState(n + 1, w, (y + average - before) / mass, mass, gradient, best, average)
