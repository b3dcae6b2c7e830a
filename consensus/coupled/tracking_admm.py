"""Tracking-ADMM for coupled constraints."""

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, Self, cast

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.problems import BaseProblem, Coupled
from consensus.solvers.base import Solver, settled
from consensus.solvers.bounds import six_digits
from consensus.solvers.needs import Needs
from topologies.schedules import ScheduleLike


class TrackingADMMState(NamedTuple):
    """Multipliers ``w``, estimates ``d`` of the mean excess, own variables ``x`` with slack; ``measured`` f_i(x_i), A |d_i|."""

    round: int
    w: np.ndarray
    d: np.ndarray
    x: np.ndarray
    measured: np.ndarray


@dataclass(frozen=True)
class TrackingADMM(Solver):
    """Method of multipliers for :class:`consensus.problems.Coupled`: each agent tracks how far the constraint is violated.

    With W the round's mixing matrix and ``d_i = A_i x_i - b_i`` at first:

        l = W lambda,    e = W d
        x_i+      = argmin_x  f_i(x) + l_i . A_i x + c/2 |A_i (x - x_i) + e_i|^2
        d_i+      = e_i + A_i (x_i+ - x_i)
        lambda_i+ = l_i + c d_i+

    so that ``sum_i d_i = sum_i (A_i x_i - b_i)`` in every round. For <=, x_i includes slack variables s_i >= 0, and A_i is
    ``[A_i, I]``. W doubly stochastic; f_i convex. The history has the columns ``cost``, sum_i f_i(x_i), and
    ``violation``, the largest ``A |d_i|``, by which agent i estimates ``|sum_j (A_j x_j - b_j)|``.

    Parameters
    ----------
    penalty : float, optional
        Penalty c > 0; by default the harmonic mean of ``mu_i / |A_i|^2``, with mu_i the modulus of convexity of f_i.

    References
    ----------
    Falsone, Notarnicola, Notarstefano, Prandini, "Tracking-ADMM for distributed constraint-coupled optimization",
    Automatica 117, 2020, Algorithm 1, for static networks.

    Examples
    --------
    Two users share a capacity of 1, and value what they get by logarithms:

    >>> import cvxpy as cp, consensus, topologies
    >>> from consensus.problems import Coupled
    >>> costs = [lambda x: -cp.sum(cp.log(x)), lambda x: -3 * cp.sum(cp.log(x))]
    >>> problem = Coupled(costs, A=[[1.0], [1.0]], b=[1.0], inequality=True)
    >>> result = consensus.solve(problem, topologies.path(2), consensus.solvers.TrackingADMM(5.0), rounds=20, start=[4.0])
    >>> [x.round(4).tolist() for x in problem.primal(result.w)]
    [[0.25], [0.75]]
    """

    penalty: float | None = field(default=None, metadata={"above": 0})

    needs = Needs(convex=True, coupled=True)
    exchanges_a_round = 1
    sends = "w, d"
    default = "by mu_i and A_i"
    history_columns = MappingProxyType({"cost": np.sum, "violation": np.max})

    def report(self, state: TrackingADMMState) -> np.ndarray:
        return state.measured

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        if self.penalty is not None:
            return self
        _checks.schedule(network, "network")
        curvature = _checks.problem(problem).lipschitz() / problem.network_size
        return replace(self, penalty=six_digits(1 / curvature.mean()))

    def init(self, problem: BaseProblem, w: np.ndarray) -> TrackingADMMState:
        problem = cast(Coupled, problem)  # as needs says
        x = np.pad(problem.minimiser(w), ((0, 0), (0, problem.parameters * problem.inequality)))
        d = problem.equality.excess(x)
        return TrackingADMMState(0, w, d, x, _measured(problem, d, x))

    def step(self, problem: BaseProblem, network: Network, state: TrackingADMMState) -> TrackingADMMState:
        n, w, d, x, _ = state
        problem, c = cast(Coupled, problem), settled(self.penalty, "penalty")
        own = problem.equality
        w, d = network.mix(n, w, d)
        new = own.augmented(w, d, x, c)
        problem.work.solves += 1
        d = d + own.excess(new) - own.excess(x)
        return TrackingADMMState(n + 1, w + c * d, d, new, _measured(problem, d, new))


def _measured(problem: Coupled, d: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return f_i(x_i) and A |d_i|, (agents, 2)."""
    return np.stack([problem.equality.costs.value(x), problem.network_size * np.linalg.norm(d, axis=1)], axis=1)
