"""Robust asynchronous stochastic gradient push."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus.asynchronous.arcs import Arcs, received
from consensus.asynchronous.base import AsynchronousSolver
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at


class RASGPState(NamedTuple):
    """Ratios w = x / y, values x (agents, P) and masses y (agents, 1), running sums of what was sent, sums already read.

    ``seen_x`` is (agents, D, P), ``seen_y`` (agents, D, 1); ``time`` (agents, 1) has each agent's count of the network's wakes,
    ``before`` what it was at the wake before, ``wakes`` (agents,) its own.
    """

    w: np.ndarray
    x: np.ndarray
    y: np.ndarray
    sum_x: np.ndarray
    sum_y: np.ndarray
    seen_x: np.ndarray
    seen_y: np.ndarray
    before: np.ndarray
    time: np.ndarray
    wakes: np.ndarray


class RASGPMessage(NamedTuple):
    """Running sums of values and masses, and the sender's time: (agents, ...) as sent, (agents, D, ...) in a mailbox."""

    sum_x: np.ndarray
    sum_y: np.ndarray
    time: np.ndarray


@dataclass(frozen=True)
class RASGP(AsynchronousSolver):
    """Push-sum with running sums, so that delays and losses lose no mass, and falling steps.

    With ``f_i = A g_i + r`` and d_i the out-degree, agent i does at each of its wakes, with hats for the newest messages,

        x_i <- (x_i - (alpha_{k'_i + 1} + ... + alpha_{k_i}) grad f_i(z_i)) / (d_i + 1),    y_i <- y_i / (d_i + 1)
        sx_i <- sx_i + x_i,    sy_i <- sy_i + y_i,    and sends (sx_i, sy_i, k_i)
        x_i <- x_i + sum_j (sx^_j - seen_ij),    y_i <- y_i + sum_j (sy^_j - seen'_ij),    z_i = x_i / y_i
        k'_i <- k_i,    k_i <- max(k_i, k^_j) + 1.

    Masses are kept under any delays and losses: ``sum_i y_i + sum over arcs (sy_j - seen'_ij) = A`` at every wake. An agent
    that wakes rarely makes up for the steps since its last wake; its time k_i is the largest number that it has heard of, as no
    agent sees the network's own count, by which the paper's steps go. Masses get small where messages are late, and steps are
    divided by them: long delays need small steps. For strongly convex costs with modulus mu and steps
    ``alpha_k = 1 / (mu k)`` it converges at a rate O(1/k), with as many samples as a lone agent would need.

    Parameters
    ----------
    step_size : float or rule
        Steps alpha_k; ``Diminishing`` and ``InverseSqrt`` fall.
    batch : int or Minibatches, optional
        Samples of an agent and wake, instead of all.

    References
    ----------
    Spiridonoff, Olshevsky, Paschalidis, "Robust asynchronous stochastic gradient-push: asymptotically optimal and
    network-independent performance for strongly convex functions", JMLR 21(58), 2020, Algorithm 3 (RASGP).

    Examples
    --------
    >>> import networkx as nx, numpy as np, consensus
    >>> from consensus.asynchronous import RASGP, Simulated
    >>> from consensus.step_sizes import Diminishing
    >>> centres = np.arange(5.0)[:, None]
    >>> value = lambda w, rows: ((w - centres[rows]) ** 2).sum(axis=1)
    >>> problem = consensus.Problem.from_functions(value, lambda w, rows: 2 * (w - centres[rows]), agents=5, parameters=1)
    >>> graph = nx.DiGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)])
    >>> late = Simulated(compute=(0.5, 1.5), delay=(0.0, 3.0), loss=0.2)
    >>> result = consensus.solve(problem, graph, RASGP(Diminishing(0.01, 5.0)), rounds=800, engine=late)
    >>> bool(abs(result.w - 2).max() < 0.1)
    True
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None

    needs = Needs(regularizer="smooth", mixing="column stochastic", wakes=True)
    sends = "sum of x, sum of y, k"
    divides = True

    def init(self, problem: BaseProblem, arcs: Arcs, w: np.ndarray) -> tuple[RASGPState, RASGPMessage]:
        agents, places = arcs.sources.shape
        nothing, none, mass = np.zeros_like(w), np.zeros((agents, 1), w.dtype), np.ones((agents, 1), w.dtype)
        seen = np.zeros((agents, places, w.shape[1]), w.dtype), np.zeros((agents, places, 1), w.dtype)
        state = RASGPState(w, w, mass, nothing, none, *seen, none, none + 1, np.zeros(agents, int))
        return state, RASGPMessage(nothing, none, none)

    def wake(
        self, problem: BaseProblem, arcs: Arcs, state: RASGPState, mailbox: RASGPMessage
    ) -> tuple[RASGPState, RASGPMessage]:
        there = (arcs.c > 0).astype(state.w.dtype)
        batch = None if self.batch is None else draw(self.batch, problem, int(state.wakes[0]))  # one agent at a time
        steps = self._steps(state.before, state.time)
        x = arcs.c_own * (state.x - steps * problem.average_gradient(state.w, batch))
        y = arcs.c_own * state.y
        sums = state.sum_x + x, state.sum_y + y
        x = x + received(there, mailbox.sum_x - state.seen_x)
        y = y + received(there, mailbox.sum_y - state.seen_y)
        time = np.maximum(state.time, (there * mailbox.time).max(axis=1)) + 1
        seen = mailbox.sum_x, mailbox.sum_y
        before = state.time.copy()
        return RASGPState(x / y, x, y, *sums, *seen, before, time, state.wakes + 1), RASGPMessage(*sums, before)

    def _steps(self, before: np.ndarray, now: np.ndarray) -> np.ndarray:
        """Return the sums of steps (agents, 1) from the wake ``before`` to that of ``now``."""
        spans = zip(before[:, 0].astype(int).tolist(), now[:, 0].astype(int).tolist(), strict=True)
        return np.array([[sum(value_at(self.step_size, k) for k in range(first, last))] for first, last in spans], now.dtype)
