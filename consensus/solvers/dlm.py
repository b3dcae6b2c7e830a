"""Decentralised linearised ADMM."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.bounds import lowest_eigenvalue, steepest
from consensus.solvers.needs import Needs
from consensus.steps import Rule, optional_rule
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from consensus.engines.network import Network


class DLMState(NamedTuple):
    """Iterates w and the dual variables of the agents' disagreement, both (agents, P)."""

    round: int
    w: np.ndarray
    dual: np.ndarray


@dataclass(frozen=True, init=False)
class DLM(Solver):
    """Decentralised ADMM with every local cost linearised: a gradient step in place of a local problem.

    On the average form ``f_i = A g_i + r`` with G(X) the stacked gradients, W the mixing matrix, U before the first round zero:

        U <- U + c (I - W) X          X <- X - alpha (G(X) + U + c (I - W) X)

    An edge has the penalty c w_ij where the paper gives all edges the same, so that an agent has penalties of c in all; and
    ``alpha = 1 / (2 c + rho)`` with the paper's rho. ``c = 1 / (2 alpha)`` is EXTRA. It needs a static symmetric W, convex f_i
    and a smooth r; it converges linearly if the f_i are strongly convex.

    Parameters
    ----------
    step : float or rule, optional
        alpha > 0, stable below ``1 / (L/2 + c (1 - lmin(W)))``, L the largest Lipschitz constant of the grad f_i. That is
        sufficient; with equal quadratics of curvature L at all agents ``1 / (L/2 + 3/4 c (1 - lmin(W)))`` is the exact bound.
        The default is 0.9 of the first.
    penalty : float, optional
        c > 0; by default 1 / (3 alpha), with which the first bound is ``2/3 (2 + lmin(W)) / L``.

    References
    ----------
    Ling, Shi, Wu, Ribeiro, "DLM: decentralized linearized alternating direction method of multipliers", IEEE TSP 63(15), 2015,
    Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), DLM(step=0.1), rounds=200).mean.round(9)
    array([2.])
    """

    alpha: Rule
    penalty: float | None

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"

    def __init__(self, step: float | Rule | None = None, penalty: float | None = None) -> None:
        penalty = _checks.optional_number("penalty", penalty, above=0)
        self._set(alpha=optional_rule(step), penalty=penalty)

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        L, lowest = steepest(problem, network), lowest_eigenvalue(network)
        if self.penalty is None:
            return 0.6 * (2 + lowest) / L
        return 0.9 / (L / 2 + self.penalty * (1 - lowest))

    def init(self, problem: BaseProblem, w: np.ndarray) -> DLMState:
        return DLMState(0, w, np.zeros_like(w))

    def step(self, problem: BaseProblem, network: "Network", state: DLMState) -> DLMState:
        n, w, dual = state
        alpha = float(self.alpha(n))
        c = 1 / (3 * alpha) if self.penalty is None else self.penalty
        (mixed,) = network.mix(n, w)
        apart = c * (w - mixed)
        dual = dual + apart
        return DLMState(n + 1, w - alpha * (problem.average_gradient(w) + dual + apart), dual)
