"""Asynchronous decentralized gradient descent."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from consensus.asynchronous.arcs import Arcs, graph_of, received
from consensus.asynchronous.base import AsynchronousSolver, steps_at
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule
from topologies.schedules import ScheduleLike


class AsynchronousDGDState(NamedTuple):
    """Iterates w (agents, P), and how often each agent woke (agents,)."""

    w: np.ndarray
    wakes: np.ndarray


class AsynchronousDGDMessage(NamedTuple):
    """The iterate: (agents, P) as sent, (agents, D, P) in a mailbox."""

    w: np.ndarray


@dataclass(frozen=True)
class AsynchronousDGD(AsynchronousSolver):
    """Each agent mixes its iterate with the newest ones of its neighbours and follows its own gradient.

    With ``f_i = A g_i + r``, the network's symmetric W and a hat for the newest message that arrived, at each wake of agent i

        w_i <- W_ii w_i + sum_j W_ij w^_j - alpha grad f_i(w_i)    and sends w_i.

    With ``alpha < 2 min_i W_ii / L_i``, L_i the Lipschitz constants of the grad f_i, it converges for convex costs whatever the
    delays, without knowing them, to the fixed point of :class:`consensus.solvers.DGD`: near the optimum, in proportion to
    alpha, not at it.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0; a rule is one of the agent's own wakes.
    batch : int or Minibatches, optional
        Samples of an agent and wake, instead of all.

    References
    ----------
    Wu, Liu, Magnusson, Johansson, "Delay-agnostic asynchronous distributed optimization", CDC 2023 (asynchronous DGD).

    Examples
    --------
    >>> from consensus.asynchronous import AsynchronousDGD
    >>> AsynchronousDGD(0.1).step_size
    0.1
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None

    needs = Needs(regularizer="smooth", mixing="symmetric", convex=True, static=True, wakes=True)
    sends = "w"

    def matrices(self, schedule: ScheduleLike) -> tuple[sparse.csr_array, sparse.csr_array]:
        graph_of("AsynchronousDGD", schedule)  # refuses what changes or is not connected
        weights = sparse.csr_array(schedule.weights(schedule.key(0)))
        return weights, weights

    def init(self, problem: BaseProblem, arcs: Arcs, w: np.ndarray) -> tuple[AsynchronousDGDState, AsynchronousDGDMessage]:
        return AsynchronousDGDState(w, np.zeros(len(w), int)), AsynchronousDGDMessage(w)

    def wake(
        self, problem: BaseProblem, arcs: Arcs, state: AsynchronousDGDState, mailbox: AsynchronousDGDMessage
    ) -> tuple[AsynchronousDGDState, AsynchronousDGDMessage]:
        w, wakes = state
        batch = None if self.batch is None else draw(self.batch, problem, int(wakes[0]))  # one agent at a time
        descent = steps_at(self.step_size, wakes, w.dtype) * problem.average_gradient(w, batch)
        w = arcs.r_own * w + received(arcs.r, mailbox.w) - descent
        return AsynchronousDGDState(w, wakes + 1), AsynchronousDGDMessage(w)
