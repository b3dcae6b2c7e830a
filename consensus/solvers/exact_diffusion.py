"""Exact diffusion."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver
from consensus.solvers.bounds import steepest
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


class ExactDiffusionState(NamedTuple):
    """Iterates w, and the points p of the last gradient step, both (agents, P)."""

    round: int
    w: np.ndarray
    p: np.ndarray


@dataclass(frozen=True)
class ExactDiffusion(Solver):
    """Adapt, correct, combine: diffusion without its bias.

    G stacks the gradients of the average form ``f_i = A g_i + r``, W~ = (I + W) / 2, and P_0 = X_0:

        P+ = X - alpha G(X),   F = P+ + X - P,   X+ = W~ F .

    The agents send F. For convex smooth f_i and one symmetric W; linear convergence if U is strongly convex.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0; a constant, for the theory. Stable below 2 / L on every network, with L the largest of the Lipschitz
        constants of the grad f_i; half of that by default.

    References
    ----------
    Yuan, Ying, Zhao, Sayed, "Exact diffusion for distributed optimization and learning - part I: algorithm development", IEEE
    Trans. Signal Process. 67(3), 2019, Algorithm 1; Li, Shi, Yan, IEEE Trans. Signal Process. 67(17), 2019, for the bound.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import ExactDiffusion
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1, lipschitz=2.0)
    >>> consensus.solve(problem, topologies.ring(5), ExactDiffusion(), rounds=300).w[:, 0].round(9).tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    step_size: float | Rule | None = None

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "1 / L"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return 1 / steepest(problem, network)

    def init(self, problem: BaseProblem, w: np.ndarray) -> ExactDiffusionState:
        return ExactDiffusionState(0, w, w)

    def step(self, problem: BaseProblem, network: Network, state: ExactDiffusionState) -> ExactDiffusionState:
        n, w, before = state
        p = w - value_at(self.step_size, n) * problem.average_gradient(w)
        corrected = p + w - before
        (mixed,) = network.mix(n, corrected)
        return ExactDiffusionState(n + 1, (mixed + corrected) / 2, p)
