"""NEXT: in-network successive convex approximation."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem
from consensus.solvers.successive_convex import SuccessiveConvex

if TYPE_CHECKING:
    from consensus.engines.network import Network


class NEXTState(NamedTuple):
    """Iterates w, trackers y of the average gradient of the g_i, local gradients, and the last local minimisers."""

    round: int
    w: np.ndarray
    y: np.ndarray
    gradient: np.ndarray
    best: np.ndarray


@dataclass(frozen=True, init=False)
class NEXT(SuccessiveConvex):
    """In-network nonconvex optimisation: a convex problem per agent, a step, one exchange with neighbours.

    With A agents, mixing matrix C of round n, and y_i = grad g_i at the start,

        w~_i = argmin_w  g~_i(w; w_i) + (A y_i - grad g_i(w_i)) . (w - w_i) + r(w)
        z_i  = w_i + alpha[n] (w~_i - w_i)
        w_i <- sum_j c_ij z_j
        y_i <- sum_j c_ij y_j + grad g_i(w_i new) - grad g_i(w_i old) .

    Doubly stochastic C keep ``mean(y) = mean(grad g_i)`` at every round. With jointly connected graphs and a step that
    diminishes (or is small enough) every limit point is stationary for U and the agents agree.

    Parameters
    ----------
    surrogate : FullLinearization, PartialLinearization or Blocks
        g~_i.
    step : float or rule
        alpha, in (0, 1].
    local : Exact or CVXPYSolver, optional
        Solves the local problems.
    tolerance : float or callable
        How exactly: each agent's residual relative to that at w_i. A function of the step size, such as
        ``lambda alpha: 0.1 * alpha``, makes the solves sharper as alpha falls: with errors eps_i[n] the method converges if
        ``sum_n alpha[n] eps_i[n]`` is finite.

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016, Algorithm 1; Scardapane,
    Di Lorenzo, Neural Networks 91, 2017, Algorithm 1.

    Examples
    --------
    >>> from consensus.steps import Diminishing
    >>> from consensus.surrogates import PartialLinearization
    >>> NEXT(PartialLinearization(tau=1.0), Diminishing(0.5, 0.01)).alpha(0)
    0.5
    """

    exchanges_a_round = 1
    sends = "w, y"

    def init(self, problem: BaseProblem, w: np.ndarray) -> NEXTState:
        gradient = _checks.problem(problem).gradient(w)
        return NEXTState(0, w, gradient, gradient, w)

    def step(self, problem: BaseProblem, network: "Network", state: NEXTState) -> NEXTState:
        n, w, y, gradient, _ = state
        best = self.minimise(problem, network, state)
        z = w + self.alpha(n) * (best - w)
        w, y = network.mix(n, z, y)
        new = problem.gradient(w)
        y += new - gradient
        return NEXTState(n + 1, w, y, new, best)
