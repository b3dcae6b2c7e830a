"""Asynchronous decentralized parallel stochastic gradient descent."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from consensus.asynchronous.arcs import Arcs, graph_of
from consensus.asynchronous.base import AsynchronousSolver, steps_at
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule
from topologies.schedules import ScheduleLike


class ADPSGDState(NamedTuple):
    """Iterates w, copies of them at which gradients are computed (agents, P), and how often each agent woke (agents,)."""

    w: np.ndarray
    copy: np.ndarray
    wakes: np.ndarray


class ADPSGDMessage(NamedTuple):
    """Message to the partner, shape (agents, P). In a mailbox: the partner's iterate, shape (agents, 1, P)."""

    w: np.ndarray


@dataclass(frozen=True)
class ADPSGD(AsynchronousSolver):
    """An event of two agents: average with a random neighbour, then step along a gradient at a stale copy.

    With ``f_i = A g_i + r``, agent i, whose gradient is of its copy x'_i, draws a neighbour j when it wakes, and

        x_i, x_j <- (x_i + x_j) / 2    in one indivisible exchange
        x_i <- x_i - alpha grad f_i(x'_i),    x'_i = x_i.

    The exchange takes a message there and one back before agent i computes again; agent j is not held up. If one of them is
    lost, the two do not average. It ends near a stationary point, off in proportion to alpha; a slow agent's gradient counts
    less. The graph is undirected and connected.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0; a rule is one of the agent's own wakes.
    batch : int or Minibatches, optional
        Samples of an agent and wake, instead of all.

    References
    ----------
    Lian, Zhang, Zhang, Liu, "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018, Algorithm 1.

    Examples
    --------
    >>> from consensus.asynchronous import ADPSGD
    >>> ADPSGD(0.1, batch=32).step_size
    0.1
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None

    needs = Needs(regularizer="smooth", mixing="symmetric", wakes=True)
    sends = "w, to one neighbour and back"
    pairs = True

    def matrices(self, schedule: ScheduleLike) -> tuple[sparse.csr_array, sparse.csr_array]:
        graph_of("ADPSGD", schedule)  # refuses what changes or is not connected
        if schedule.agents < 2:
            raise ValueError("ADPSGD averages with a neighbour: give a network of two agents or more")
        weights = sparse.csr_array(schedule.weights(schedule.key(0)))
        return weights, weights

    def init(self, problem: BaseProblem, arcs: Arcs, w: np.ndarray) -> tuple[ADPSGDState, ADPSGDMessage]:
        return ADPSGDState(w, w, np.zeros(len(w), int)), ADPSGDMessage(w)

    def wake(
        self, problem: BaseProblem, arcs: Arcs, state: ADPSGDState, mailbox: ADPSGDMessage
    ) -> tuple[ADPSGDState, ADPSGDMessage]:
        batch = None if self.batch is None else draw(self.batch, problem, int(state.wakes[0]))  # one agent at a time
        gradient = problem.average_gradient(state.copy, batch)
        mean = (state.w + mailbox.w[:, 0]) / 2
        w = mean - steps_at(self.step_size, state.wakes, mean.dtype) * gradient
        return ADPSGDState(w, w, state.wakes + 1), ADPSGDMessage(mean)
