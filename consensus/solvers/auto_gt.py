"""AutoGT: gradient tracking with a step of its own for every agent."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs

_FIRST = 1e-3  # the paper's first step


class AutoGTState(NamedTuple):
    """Iterates w, trackers y, local gradients grad f_i, all (agents, P); steps, and those of the round before, (agents, 1)."""

    round: int
    w: np.ndarray
    y: np.ndarray
    gradient: np.ndarray
    alpha: np.ndarray
    before: np.ndarray


@dataclass(frozen=True)
class AutoGT(Solver):
    """Gradient tracking where each agent sets its own step by the curvature that it has just seen: nothing to tune.

    On the average form ``f_i = A g_i + r`` with G(X) the stacked gradients and Y0 = G(X0):

        X+ = W (X - diag(a) Y),   Y+ = W (Y + G(X+) - G(X)),
        a_i+ = min( sqrt(1 + a_i / a_i before) a_i,  |x_i+ - x_i| / (2 |y_i+ - y_i|) ),   a_i = 1e-3 in the first two rounds.

    An agent whose iterate or tracker did not change keeps its step. ``sum_i y_i = sum_i grad f_i(x_i)`` at every round, two
    exchanges in each. This is the paper's Algorithm 2 with K = 1 inner exchange; :class:`Gossip` around it gives K. On badly
    connected networks it takes many rounds. r is smooth, W fixed and symmetric. With strongly convex smooth f_i the paper's
    rate is linear, if K is large enough. The history gets the columns ``step_least`` and ``step_largest``.

    References
    ----------
    Chen, Wang, "Automating stepsizes for decentralized optimization and learning with geometric convergence", 2025, Algorithm
    2; Malitsky, Mishchenko, "Adaptive gradient descent without descent", ICML 2020, for the steps.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import AutoGT
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), AutoGT(), rounds=200).w.round(6).ravel()
    array([2., 2., 2., 2., 2.])
    """

    needs = Needs(regularizer="smooth", mixing="symmetric", static=True)
    exchanges_a_round = 2
    sends = "w, y"
    history_columns = MappingProxyType({"step_least": np.min, "step_largest": np.max})

    def report(self, state: AutoGTState) -> np.ndarray:
        return np.concatenate([state.alpha, state.alpha], axis=1)

    def init(self, problem: BaseProblem, w: np.ndarray) -> AutoGTState:
        gradient = _checks.problem(problem).average_gradient(w)
        alpha = np.full((len(w), 1), _FIRST, w.dtype)
        return AutoGTState(0, w, gradient, gradient, alpha, alpha)

    def step(self, problem: BaseProblem, network: Network, state: AutoGTState) -> AutoGTState:
        n, w, y, gradient, alpha, before = state
        (w_new,) = network.mix(n, w - alpha * y)
        new = problem.average_gradient(w_new)
        (y_new,) = network.mix(n, y + new - gradient)
        return AutoGTState(n + 1, w_new, y_new, new, alpha if n == 0 else _next(alpha, before, w_new - w, y_new - y), alpha)


def _next(alpha: np.ndarray, before: np.ndarray, moved: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """Return the steps after ``alpha`` and those ``before`` it, from the changes of iterates and trackers."""
    grown = np.sqrt(1 + alpha / before) * alpha
    moved, turned = (np.sqrt(np.vecdot(v, v))[:, None] for v in (moved, turned))
    seen = (turned > 0) & (moved > 0)
    return np.where(seen, np.minimum(grown, moved / (2 * np.where(seen, turned, 1))), alpha)
