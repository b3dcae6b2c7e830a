"""DATOS: three-operator splitting whose common step the agents find by backtracking."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs

_FIRST = 1.0  # step, from which the first backtracking starts
_WEIGHT = 0.49  # c
_CLEAR = 1000  # times rounding: what is smaller is not read off differences of the costs' values


class DATOSState(NamedTuple):
    """Iterates w, dual variables s of r and d of the network, the common step, and the exchanges so far.

    ``tries`` (agents,) has the evaluations of costs in the last backtracking.
    """

    round: int
    w: np.ndarray
    s: np.ndarray
    d: np.ndarray
    alpha: float
    sent: int
    tries: np.ndarray


@dataclass(frozen=True)
class DATOS(Solver):
    """Adaptive three-operator splitting, with the least of the agents' steps for all: nothing to tune, any convex r.

    On ``f_i = A g_i``, with G the stacked gradients, W' = (1 - c) I + c W, c = 0.49, S0 = D0 = 0, a round is

        X^ = W' X,   D^ = W' (G(X) + S + D)                           one exchange of two vectors
        a_i = growth * a,   halved while   f_i(x_i + p) > f_i(x_i) + grad f_i(x_i) . p + (0.9 / (2 a_i)) |p|^2
              with   p = x^_i - a_i d^_i - x_i
        a = min_i a_i                                                 a flood of one number
        X+ = prox_ar(X^ - a D^ + a S)
        S+ = S + (X^ - X+ - a D^) / a
        D+ = D^ + (X - X^ - a G(X) - a S) / a ,

    growth = ((k + 10) / (k + 1))^0.6 in round k; the first a is 1. ``sum_i d_i = 0`` at every round. With r = 0 and a constant
    a it is NIDS with W' in place of (I + W) / 2.

    The flood takes as many exchanges as the network's diameter; every message in it carries the least number that its sender
    knows of. In the first round agents find the diameter in twice as many exchanges, with messages that also carry a bitmask of
    the agents heard from; on networks that change every round has such messages.

    Near the optimum a cost's values differ by no more than their rounding. An agent whose ``|p|^2 / a_i`` is so small keeps the
    last common step.

    Theory is of convex, locally smooth f_i and a fixed symmetric W: the rate is sublinear, and linear if the sum of the costs
    is strongly convex and r partly smooth, as L1 is. The history gets the columns ``step`` and ``tries``, the most evaluations
    of a cost by an agent in the round's backtracking.

    References
    ----------
    Chen, Kuruzov, Scutari, "Adaptive decentralized composite optimization via three-operator splitting",
    arXiv 2602.17545, 2026, the variant with global min-consensus.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1,
    ...     regularizer=consensus.L1(10.0))
    >>> consensus.solve(problem, topologies.ring(5), consensus.solvers.DATOS(), rounds=100).w.round(6).ravel()
    array([1., 1., 1., 1., 1.])
    """

    needs = Needs(convex=True, mixing="symmetric", static=True, counts_exchanges=True, deterministic=True, exact=True)
    sends = "w, d, a"
    history_columns = MappingProxyType({"step": np.max, "tries": np.max})

    def report(self, state: DATOSState) -> np.ndarray:
        return np.stack([np.full(len(state.w), state.alpha), state.tries], axis=1)

    def init(self, problem: BaseProblem, w: np.ndarray) -> DATOSState:
        zero = np.zeros_like(w)
        return DATOSState(0, w, zero, zero, _FIRST, 0, np.zeros(len(w), int))

    def step(self, problem: BaseProblem, network: Network, state: DATOSState) -> DATOSState:
        n, w, s, d, alpha, sent, _ = state
        gradient = network.agents * problem.gradient(w)
        dual = gradient + s + d
        mixed_w, mixed_dual = network.mix(sent, w, dual)
        w_hat, d_hat = (1 - _WEIGHT) * w + _WEIGHT * mixed_w, (1 - _WEIGHT) * dual + _WEIGHT * mixed_dual
        growth = ((n + 10) / (n + 1)) ** 0.6
        steps, tries = _backtrack(problem, w, gradient, w_hat, d_hat, alpha, growth)
        alpha, sent = _least(network, sent + 1, steps, first=n == 0)
        w_new = problem.regularizer.prox(w_hat - alpha * (d_hat - s), alpha)
        s_new = s + (w_hat - w_new) / alpha - d_hat
        d = d_hat + (w - w_hat) / alpha - gradient - s
        return DATOSState(n + 1, w_new, s_new, d, alpha, sent, tries)


def _backtrack(
    problem: BaseProblem, w: np.ndarray, gradient: np.ndarray, w_hat: np.ndarray, d_hat: np.ndarray, alpha: float, growth: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the agents' own steps (agents,), from the last common one, ``alpha``, and how many evaluations each took."""
    agents, precision = problem.network_size, np.finfo(w.dtype)
    rounding, least = _CLEAR * precision.eps, precision.tiny  # where costs are not finite no step is short enough
    value = agents * problem.value(w)
    size = np.abs(value)
    steps, tries, open_ = np.full(len(w), growth * alpha, w.dtype), np.zeros(len(w), int), np.ones(len(w), bool)
    while np.count_nonzero(open_):
        p = w_hat - steps[:, None] * d_hat - w
        slope, most = np.vecdot(gradient, p), 0.45 / steps * np.vecdot(p, p)
        rise = agents * problem.value(w + p) - value - slope
        unclear = most <= rounding * (size + np.abs(slope))
        tries = tries + open_
        steps = np.where(unclear & open_, np.minimum(steps, alpha), steps)
        open_ = open_ & ~(unclear | (rise <= most))  # what is no number is too far
        open_ = open_ & (steps > least)
        steps = np.where(open_, steps / 2, steps)
    return steps, tries


def _least(network: Network, round: int, steps: np.ndarray, first: bool) -> tuple[float, int]:
    """Return the least of all agents' ``steps``, by a flood that begins in ``round``, and the round after it."""
    exchanges, beside = network.flooding.diameter(round), 0
    if first or not network.static:
        beside = network.flooding.words
    if first and network.static:
        exchanges *= 2
    return network.flooding.minimum(round, exchanges, steps, beside), round + exchanges
