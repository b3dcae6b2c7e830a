"""Overlap stochastic gradient push."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from consensus.asynchronous.arcs import Arcs
from consensus.asynchronous.base import AsynchronousSolver, steps_at
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule


class OverlapSGPState(NamedTuple):
    """Ratios w = x / mass, values x (agents, P), masses (agents, 1), and how often each agent woke (agents,)."""

    w: np.ndarray
    x: np.ndarray
    mass: np.ndarray
    wakes: np.ndarray


class OverlapSGPMessage(NamedTuple):
    """A share of value and mass: (agents, ...) as sent; in a mailbox (agents, D, ...) the sums of what arrived."""

    x: np.ndarray
    mass: np.ndarray


@dataclass(frozen=True)
class OverlapSGP(AsynchronousSolver):
    """Stochastic gradient push that computes while its messages are on their way.

    With ``f_i = A g_i + r``, d_i the out-degree and S the messages that arrived since the last wake, agent i does

        x_i <- x_i - alpha grad f_i(w_i)
        every so many wakes:  (x_i, p_i) <- (x_i, p_i) / (d_i + 1),    and sends that share to each neighbour
        x_i <- x_i + sum_S x,    p_i <- p_i + sum_S p,    w_i = x_i / p_i.

    Masses are kept if no message is lost, whatever the delays; a lost one would take its mass along, so losses are rejected.
    With a constant alpha it ends near a stationary point.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0; a rule is one of the agent's own wakes.
    batch : int or Minibatches, optional
        Samples of an agent and wake, instead of all.
    every : int
        Wakes from one sending to the next, tau in the paper.

    References
    ----------
    Assran, Loizou, Ballas, Rabbat, "Stochastic gradient push for distributed deep learning", ICML 2019, Algorithm 2 (overlap
    SGP; there an agent waits for messages that are late by more than tau steps).

    Examples
    --------
    >>> from consensus.asynchronous import OverlapSGP
    >>> OverlapSGP(0.1, batch=32, every=2).every
    2
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None
    every: int = field(default=1, metadata={"count": 1})

    needs = Needs(regularizer="smooth", mixing="column stochastic", wakes=True)
    sends = "x, mass"
    adds = True
    tolerates_loss = False

    def sends_at(self, wake: int) -> bool:
        return (wake + 1) % self.every == 0

    def init(self, problem: BaseProblem, arcs: Arcs, w: np.ndarray) -> tuple[OverlapSGPState, OverlapSGPMessage]:
        mass = np.ones((len(w), 1), w.dtype)
        return OverlapSGPState(w, w, mass, np.zeros(len(w), int)), OverlapSGPMessage(np.zeros_like(w), 0 * mass)

    def wake(
        self, problem: BaseProblem, arcs: Arcs, state: OverlapSGPState, mailbox: OverlapSGPMessage
    ) -> tuple[OverlapSGPState, OverlapSGPMessage]:
        batch = None if self.batch is None else draw(self.batch, problem, int(state.wakes[0]))  # one agent at a time
        x = state.x - steps_at(self.step_size, state.wakes, state.w.dtype) * problem.average_gradient(state.w, batch)
        sent = np.array([[self.sends_at(int(count))] for count in state.wakes])
        x, mass = np.where(sent, arcs.c_own * x, x), np.where(sent, arcs.c_own * state.mass, state.mass)
        message = OverlapSGPMessage(x, mass)
        x, mass = x + mailbox.x.sum(axis=1), mass + mailbox.mass.sum(axis=1)
        return OverlapSGPState(x / mass, x, mass, state.wakes + 1), message
