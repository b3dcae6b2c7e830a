"""NEXT: in-network successive convex approximation."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.problems.minibatches import draw
from consensus.solvers.successive_convex import SuccessiveConvex
from consensus.step_sizes import value_at


class NEXTState(NamedTuple):
    """Iterates w, trackers y of the average of the gradients, local gradients, the last local minimisers; all (agents, P).

    ``average`` has the running averages of gradients of batches, which y tracks then; otherwise the gradients themselves.
    """

    round: int
    w: np.ndarray
    y: np.ndarray
    gradient: np.ndarray
    best: np.ndarray
    average: np.ndarray


@dataclass(frozen=True)
class NEXT(SuccessiveConvex):
    """In-network nonconvex optimisation: a convex problem per agent, a step, one exchange with neighbours.

    With A agents, mixing matrix C of round n, and y_i = grad g_i at the start,

        w~_i = argmin_w  g~_i(w; w_i) + (A y_i - grad g_i(w_i)) . (w - w_i) + r(w)
        z_i  = w_i + alpha[n] (w~_i - w_i)
        w_i <- sum_j c_ij z_j
        y_i <- sum_j c_ij y_j + grad g_i(w_i new) - grad g_i(w_i old) .

    Doubly stochastic C keep ``mean(y) = mean(grad g_i)`` at every round. With jointly connected graphs and a step that
    diminishes (or is small enough) every limit point is stationary for U and the agents agree.

    With batches g~_i and grad g_i are of the round's batch B[n], and y_i tracks running averages of these gradients,

        d_i[n] = (1 - rho[n]) d_i[n-1] + rho[n] grad g_i(w_i; B[n]) ,     y_i <- sum_j c_ij y_j + d_i[n+1] - d_i[n] .

    Theory lets alpha and rho fall, alpha faster; with a constant alpha the agents end in a neighbourhood, whose square is of
    order alpha. A constant rho is enough for that with FullLinearization; with PartialLinearization it leaves a bias of order
    rho, however small alpha is, as the batch's curvature and its gradient are not independent.

    Parameters
    ----------
    surrogate : FullLinearization, PartialLinearization or Blocks
        Convex models g~_i of the costs.
    step_size : float or rule
        Step alpha, in (0, 1].
    local : Exact or CVXPYSolver, optional
        Solves the local problems.
    tolerance : float or callable
        Each agent's residual relative to that at w_i. A function of the step size, such as ``lambda alpha: 0.1 * alpha``, makes
        the solves sharper as alpha falls: with errors eps_i[n] the method converges if ``sum_n alpha[n] eps_i[n]`` is finite.
    batch : int or Minibatches, optional
        Samples of each agent and round, instead of all.
    averaging : float or rule, optional
        Weight rho of the new gradients, in (0, 1]; ``InverseSqrt(1.0)``, which falls, by default. For an agent that uses all
        its samples it is 1.

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016, Algorithm 1; Scardapane,
    Di Lorenzo, Neural Networks 91, 2017, Algorithm 1. With batches: Di Lorenzo, Scardapane, "Distributed stochastic nonconvex
    optimization and learning based on successive convex approximation", Asilomar 2019 (the recursive averages), after Yang,
    Scutari, Palomar, Pesavento, "A parallel decomposition method for nonconvex stochastic multi-agent optimization problems",
    IEEE Trans. Signal Process. 64(11), 2016.

    Examples
    --------
    >>> from consensus.step_sizes import Diminishing
    >>> from consensus.surrogates import PartialLinearization
    >>> from consensus.solvers import NEXT
    >>> NEXT(PartialLinearization(tau=1.0), Diminishing(0.5, 0.01)).step_size
    Diminishing(initial=0.5, decay=0.01)
    """

    exchanges_a_round = 1
    sends = "w, y"

    def init(self, problem: BaseProblem, w: np.ndarray) -> NEXTState:
        gradient = _checks.problem(problem).gradient(w, draw(self.batch, problem, 0))
        return NEXTState(0, w, gradient, gradient, w, gradient)

    def step(self, problem: BaseProblem, network: Network, state: NEXTState) -> NEXTState:
        n, w, y, _, _, before = state
        best = self.minimise(problem, network, state)
        z = w + value_at(self.step_size, n) * (best - w)
        w, y = network.mix(n, z, y)
        gradient = problem.gradient(w, draw(self.batch, problem, n + 1))
        average = self.averaged(problem, before, gradient, n + 1)
        return NEXTState(n + 1, w, y + average - before, gradient, best, average)
