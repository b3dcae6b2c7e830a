"""RelaySGD: exact averages, relayed along a tree."""

import copy
from dataclasses import dataclass, field
from typing import NamedTuple, Self, cast

import networkx as nx
import numpy as np

import topologies
from consensus import _checks
from consensus.communication.messages import Messages
from consensus.communication.network import Network
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike, is_static


class RelaySGDState(NamedTuple):
    """Iterates w and their ``start`` (agents, P); the last messages of neighbours (agents, neighbours, P + 1), with counts."""

    round: int
    w: np.ndarray
    start: np.ndarray
    received: np.ndarray
    sent: np.ndarray


@dataclass(frozen=True)
class RelaySGD(Solver):
    """Descent on averages that are exact, though late: sums of models are relayed along a tree.

    With g_i the gradient of ``f_i = A g_i + r`` at x_i, all messages zero at first and N_i the neighbours in the tree,

        y_i = x_i - alpha g_i
        m(i -> j)+ = y_i + sum_{k in N_i without j} m(k -> i) ,     c(i -> j)+ = 1 + sum_{k in N_i without j} c(k -> i)
        x_i+ = (y_i + sum_{k in N_i} m(k -> i)+ + (A - 1 - c_i) x_i(0)) / A ,    c_i = sum_{k in N_i} c(k -> i)+ .

    x_i is the mean of all agents' y, each delayed by its agent's distance; x_i(0), in the paper the same for all agents, stands
    for those that have not arrived yet. With whole gradients and a small constant alpha it converges to a stationary point,
    however different the f_i are, and with batches to a neighbourhood whose square is of order alpha; f_i may be nonconvex.

    An agent sends all neighbours one row, ``y_i + sum_k m(k -> i)``, from which j subtracts its own message m(j -> i). Rows are
    sent along a spanning tree, found by breadth-first search from the middle of the graph; pass another tree as the network to
    use it. The network is static and undirected, and its weights are not used.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0, small where the tree is deep.
    batch : int or Minibatches, optional
        Samples of each agent and round from which g_i is estimated; all by default.

    References
    ----------
    Vogels, He, Koloskova, Lin, Karimireddy, Stich, Jaggi, "RelaySum for decentralized deep learning on heterogeneous data",
    NeurIPS 2021, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import RelaySGD
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> result = consensus.solve(problem, topologies.ring(5), RelaySGD(0.01), rounds=400)
    >>> result.w[:, 0].round(6).tolist(), int(result.history["messages"][-1])  # over four edges of five, both ways
    ([2.0, 2.0, 2.0, 2.0, 2.0], 3200)
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None
    # The most neighbours that an agent has in the tree; prepared counts them.
    degree: int | None = field(default=None, init=False, repr=False, compare=False)

    needs = Needs(regularizer="smooth", mixing="symmetric", static=True, each_message=True)
    exchanges_a_round = 1
    sends = "mass, w"  # the mass counts models

    def check_network(self, schedule: ScheduleLike) -> None:
        if not is_static(schedule):
            raise ValueError(f"RelaySGD relays along a tree that stays as it is, and {schedule} changes: give a static network")
        if not nx.is_connected(_graph(schedule)):
            raise ValueError(f"RelaySGD relays along a tree that joins all agents, and {schedule} falls into parts")

    def edges(self, network: ScheduleLike) -> ScheduleLike:
        return topologies.Static(_tree(_checks.schedule(network, "network")))

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        ready = copy.copy(super().prepared(problem, network))
        object.__setattr__(ready, "degree", max(degree for _, degree in _tree(network).degree))
        return ready

    def width(self, problem: BaseProblem) -> int:
        return _checks.problem(problem).parameters + 1

    def init(self, problem: BaseProblem, w: np.ndarray) -> RelaySGDState:
        if self.degree is None:
            raise TypeError("the tree is not known yet: solver.prepared(problem, network) is the solver that knows it")
        nothing = np.zeros_like(w, shape=(len(w), self.degree, w.shape[1] + 1))
        return RelaySGDState(0, w, w, nothing, nothing)

    def step(self, problem: BaseProblem, network: Network, state: RelaySGDState) -> RelaySGDState:
        n, w, start, received, sent = state
        y = problem.descended(w, value_at(self.step_size, n), w, draw(self.batch, problem, n))
        # A number more, one at each agent, is relayed as models are: it counts them.
        total = np.concatenate([y, np.ones_like(y, shape=(len(y), 1))], axis=1) + received.sum(axis=1)
        arrived, gone = np.zeros_like(received), np.zeros_like(sent)

        def relay(messages: Messages) -> np.ndarray:
            arc = messages.receivers, _places(messages.receivers)
            arrived[arc] = messages.rows[messages.sources] - sent[arc]
            gone[arc] = messages.own[messages.receivers] - received[arc]
            return cast(np.ndarray, arrived.sum(axis=1))

        (relayed,) = network.aggregate(n, relay, total)
        size = problem.network_size
        w = (y + relayed[:, :-1] + (size - 1 - relayed[:, -1:]) * start) / size
        return RelaySGDState(n + 1, w, start, arrived, gone)


def _places(receivers: np.ndarray) -> np.ndarray:
    """Return the position of each arc among those to the same receiver: receivers ascend."""
    return np.arange(len(receivers)) - np.searchsorted(receivers, receivers)


def _graph(network: ScheduleLike) -> nx.Graph:
    """Return the graph of the first round."""
    graph: nx.Graph = nx.from_scipy_sparse_array(network.weights(network.key(0)))
    return graph


def _tree(network: ScheduleLike) -> nx.Graph:
    """Return a breadth-first spanning tree from an agent in the middle of a longest of the shortest paths."""
    graph, ends = _graph(network), [0]
    for _ in range(2):  # the farthest agent, and the farthest from that
        ends.append(list(nx.bfs_tree(graph, ends[-1]))[-1])
    middle = nx.shortest_path(graph, *ends[1:])
    tree = nx.Graph(nx.bfs_edges(graph, middle[len(middle) // 2]))
    tree.add_nodes_from(graph)
    return tree
