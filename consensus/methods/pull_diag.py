"""PullDiag: gradient tracking over directed graphs by a row stochastic matrix alone."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies import _names
from topologies.schedules import ScheduleLike, is_static, labels


class PullDiagState(NamedTuple):
    """Iterates w, trackers y, gradients, all (agents, P); the agents' rows (agents, A) of the power of the mixing matrix."""

    round: int
    w: np.ndarray
    y: np.ndarray
    gradient: np.ndarray
    power: np.ndarray


@dataclass(frozen=True)
class PullDiag(Solver):
    """Gradient tracking among agents that broadcast and do not know who receives them: a row stochastic matrix alone.

    G stacks the gradients of the ``f_i / A``, which add up to that of U, R is the row stochastic matrix with which every agent
    averages what it receives (:func:`topologies.pull`). With V0 = I and Y0 = G(X0):

        V+ = R V ,   X+ = R X - alpha Y ,   Y+ = R Y + diag(V+)^-1 G(X+) - diag(V)^-1 G(X) .

    Agent i holds row i of V = R^k, whose diagonal entry tends to the weight that R gives the agent in the long run: the
    division takes it out of the sum again. With pi the left eigenvector of R, ``pi' R = pi'``,
    ``sum_i pi_i y_i = sum_i pi_i grad f_i(x_i) / (A v_ii)`` in every round. One exchange of X, Y and V, 2 P + A numbers.

    R is one matrix for all rounds, of a strongly connected graph, with a positive diagonal. :class:`PushPull` and
    :class:`PushDIGing` send no V, but their agents must know how many receive them.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0, small: linear convergence on strongly convex problems.

    References
    ----------
    Xin, Xi, Khan, "FROST: fast row-stochastic optimization with uncoordinated step-sizes", EURASIP Journal on Advances in
    Signal Processing 2019:1, the section on the algorithm, with one step for all agents.

    Examples
    --------
    >>> import networkx as nx, numpy as np, consensus, topologies
    >>> from consensus.solvers import PullDiag
    >>> centres = np.arange(4.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=4, parameters=1)
    >>> graph = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    >>> network = topologies.Static(graph, weights=topologies.pull)
    >>> consensus.solve(problem, network, PullDiag(0.02), rounds=400).w[:, 0].round(6).tolist()
    [1.5, 1.5, 1.5, 1.5]
    """

    step_size: float | Rule

    needs = Needs(regularizer="smooth", mixing="row stochastic", static=True)
    exchanges_a_round = 1
    sends = "w, y, masses"

    def check_network(self, schedule: ScheduleLike) -> None:
        if not is_static(schedule):
            raise ValueError(
                f"PullDiag needs one mixing matrix for all rounds, and {schedule} changes: PushDIGing takes networks that "
                "change, with weights=topologies.push"
            )
        matrix = schedule.weights(schedule.key(0))
        if not matrix.diagonal().min() > 0:
            agent = _names.agent(int(matrix.diagonal().argmin()), labels(schedule))
            raise ValueError(
                f"PullDiag divides by the weights that agents give themselves in the long run, and {agent} gives itself none: "
                "topologies.pull gives every agent one"
            )
        if connected_components(matrix, connection="strong")[0] > 1:
            raise ValueError(
                f"PullDiag needs a strongly connected graph, and some agents of {schedule} never hear from some others: add "
                "edges, so that there is a path from each agent to each other"
            )

    def width(self, problem: BaseProblem) -> int:
        return 2 * _checks.problem(problem).parameters + problem.network_size

    def init(self, problem: BaseProblem, w: np.ndarray) -> PullDiagState:
        gradient = _checks.problem(problem).average_gradient(w) / problem.network_size
        return PullDiagState(0, w, gradient, gradient, np.eye(problem.network_size, dtype=w.dtype)[problem.rows])

    def step(self, problem: BaseProblem, network: Network, state: PullDiagState) -> PullDiagState:
        n, w, y, gradient, power = state
        before = _own(power, problem.rows)
        w, mixed, power = network.mix(n, w, y, power)
        w = w - value_at(self.step_size, n) * y
        new = problem.average_gradient(w) / problem.network_size
        y = mixed + new / _own(power, problem.rows) - gradient / before
        return PullDiagState(n + 1, w, y, new, power)


def _own(power: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the agents' diagonal entries (agents, 1)."""
    return np.take_along_axis(power, np.asarray(rows)[:, None], axis=1)
