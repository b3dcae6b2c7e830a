"""Aggregative tracking."""

from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from consensus import _checks
from consensus.aggregative.problem import Aggregative, AtAggregate
from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at


class AggregativeState(NamedTuple):
    """Variables ``w`` (agents, n), estimates ``s`` of the aggregate and ``v`` of the mean d2 f_j, and what these were made of.

    ``phi`` are the contributions, ``own`` the d1 f_i and ``slope`` the d2 f_i at ``w`` and ``s``.
    """

    round: int
    w: np.ndarray
    s: np.ndarray
    v: np.ndarray
    phi: np.ndarray
    own: np.ndarray
    slope: np.ndarray


@dataclass(frozen=True)
class AggregativeGT(Solver):
    """Agents track the aggregate and the mean slope along it, and descend in variables of their own.

    For :class:`consensus.problems.Aggregative`. With P_i the projection on the set of agent i, or the prox of its regularizer,

        x_i+ = P_i[ x_i - alpha (d1 f_i(x_i, s_i) + dphi_i(x_i)' v_i) ]
        s+   = W s + phi(x+) - phi(x),                s_0 = phi(x_0)
        v+   = W v + d2 f(x+, s+) - d2 f(x, s),       v_0 = d2 f(x_0, s_0)

    so that the means of s and v are those of phi_i(x_i) and d2 f_i(x_i, s_i) in every round. The agents send s and v, never x.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0. Without sets a small constant step converges linearly on static graphs, if the sum of the costs is
        strongly convex in all x, and smooth. With sets this is proved for damped steps, and observed for these.

    References
    ----------
    Li, Xie, Hong, "Distributed aggregative optimization over multi-agent networks", IEEE TAC 67(6), 2022, section III;
    Carnevale, Camisa, Notarstefano, "Distributed online aggregative optimization for dynamic multirobot coordination", IEEE TAC
    68(6), 2023, with sets.

    Examples
    --------
    Two users of one market, whose price grows with the mean of what they take:

    >>> import numpy as np, consensus, topologies
    >>> from consensus.problems import Aggregative
    >>> from consensus.solvers import AggregativeGT
    >>> wanted = np.array([[3.0], [1.0]])
    >>> problem = Aggregative(
    ...     lambda x, s: ((x - wanted) ** 2 / 2 + s * x).sum(axis=1), lambda x, s: (x - wanted + s, x), agents=2, parameters=1,
    ...     regularizer=consensus.NonNegative())
    >>> result = consensus.solve(problem, topologies.path(2), AggregativeGT(0.2), rounds=200)
    >>> result.w[:, 0].round(6).tolist(), bool(result.history["stationarity"][-1] < 1e-9)
    ([1.5, 0.0], True)
    """

    step_size: float | Rule

    needs = Needs(convex=True, static=True, own_regularizers=True)
    exchanges_a_round = 1
    sends = "s, v"

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        if not isinstance(problem, Aggregative):
            raise TypeError(
                "AggregativeGT needs a problem with an aggregate, consensus.problems.Aggregative(value, gradients, "
                f"agents, parameters); got {problem}: GradientTracking(step_size) takes one whose agents look for one w"
            )

    def width(self, problem: BaseProblem) -> int:
        return 2 * cast(Aggregative, _checks.problem(problem)).size + 4

    def personal(self, problem: BaseProblem) -> AtAggregate:
        return AtAggregate(np.ones(_checks.problem(problem).parameters, bool))

    def init(self, problem: BaseProblem, w: np.ndarray) -> AggregativeState:
        problem = cast(Aggregative, problem)
        phi = problem.contribution(w)
        own, slope = problem.gradients(w, phi)
        return AggregativeState(0, w, phi, slope, phi, own, slope)

    def step(self, problem: BaseProblem, network: Network, state: AggregativeState) -> AggregativeState:
        problem = cast(Aggregative, problem)
        n, x, s, v, phi, own, slope = state
        alpha = value_at(self.step_size, n)
        s, mixed = network.mix(n, s, v)
        x_new = problem.prox(x - alpha * (own + problem.pullback(x, v)), alpha)
        phi_new = problem.contribution(x_new)
        s = s + phi_new - phi
        own, slope_new = problem.gradients(x_new, s)
        return AggregativeState(n + 1, x_new, s, mixed + slope_new - slope, phi_new, own, slope_new)
