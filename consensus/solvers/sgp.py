"""SGP: stochastic gradient push over directed graphs."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.directions import Direction
from consensus.directions.base import NoMemory
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.direction import DirectionSolver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at


class SGPState(NamedTuple):
    """Iterates w, pushed sums u, both (agents, P); masses (agents, 1); what the direction remembers."""

    round: int
    w: np.ndarray
    u: np.ndarray
    mass: np.ndarray
    direction: Any = NoMemory()


@dataclass(frozen=True, repr=False)
class SGP(DirectionSolver):
    """Stochastic gradient push: :class:`DGD` for directed graphs, on which agents know only the number of their receivers.

    G stacks the gradients of the average form ``f_i = A g_i + r``, C is the round's column stochastic matrix, V the diagonal
    matrix of the masses, V_0 = I, U_0 = X_0:

        U+ = C (U - alpha G(X)),   V+ = C V,   X+ = V+^-1 U+ .

    ``sum_i v_i = A`` at every round. Graphs may be directed and change, if they are jointly strongly connected; the f_i may be
    nonconvex. At a constant alpha it ends in a neighbourhood of size O(alpha), as DGD does; :class:`PushDIGing` has no such
    bias.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0.
    batch : int or Minibatches, optional
        Samples of each agent and round from which G is estimated; all by default.
    direction : Direction, optional
        Rule that turns G(X) into the directions D of the steps, ``U+ = C (U - alpha D)``: see :mod:`consensus.directions`.

    References
    ----------
    Assran, Loizou, Ballas, Rabbat, "Stochastic gradient push for distributed deep learning", ICML 2019, Algorithm 1; Nedic,
    Olshevsky, "Stochastic gradient-push for strongly convex functions on time-varying directed graphs", IEEE TAC 61(12), 2016.

    Examples
    --------
    >>> import networkx as nx, numpy as np, consensus, topologies
    >>> from consensus.solvers import SGP
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> graph = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)])
    >>> network = topologies.Static(graph, weights=topologies.push)
    >>> consensus.solve(problem, network, SGP(0.0005), rounds=4000, record_every=4000).mean.round(2)
    array([2.])
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None
    direction: Direction | None = None

    needs = Needs(regularizer="smooth", mixing="column stochastic")
    exchanges_a_round = 1
    sends = "mass, u"

    def init(self, problem: BaseProblem, w: np.ndarray) -> SGPState:
        return SGPState(0, w, w, np.ones((len(w), 1), w.dtype), self._memory(problem, w))

    def step(self, problem: BaseProblem, network: Network, state: SGPState) -> SGPState:
        n, w, u, mass, memory = state
        alpha, batch = value_at(self.step_size, n), draw(self.batch, problem, n)
        if self.direction is None:
            ahead = problem.descended(u, alpha, w, batch)
        else:
            memory, d = self.direction.step(problem, memory, problem.average_gradient(w, batch), w)
            ahead = u - alpha * d
        mass, u = network.mix(n, mass, ahead)
        return SGPState(n + 1, u / mass, u, mass, memory)
