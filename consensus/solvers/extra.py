"""EXTRA."""

import math
from dataclasses import dataclass

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.bounds import step_below
from consensus.solvers.needs import Needs
from consensus.solvers.states import DualSolver, DualState
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class EXTRA(DualSolver):
    """The exact first-order algorithm: decentralised gradient descent, corrected by all its earlier exchanges.

    G stacks the gradients of the average form ``f_i = A g_i + r``, and W~ = (I + W) / 2:

        X1 = W X0 - alpha G(X0),   X_{k+2} = (I + W) X_{k+1} - W~ X_k - alpha (G(X_{k+1}) - G(X_k)) ,

    which telescopes to ``X_{k+1} = W X_k - alpha G(X_k) + S_k`` with ``S_k = (1/2) sum_{t<k} (W - I) X_t``. The agents send X.

    For convex smooth f_i and one symmetric W, objective and disagreement fall as 1 / k; linearly if U is strongly convex.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0; a constant, for the theory. Stable below (5 + 3 lmin(W)) / (4 L), with L the largest of the Lipschitz
        constants L_i of the grad f_i (Li and Yan; the paper proves it below (1 + lmin(W)) / L). Equal quadratics of curvature L
        diverge above it. Quadratics are also stable for ``alpha diag(L_i) < (5 I + 3 W) / 4``, which allows more if the L_i
        differ. The default is 0.9 of that (half for models that are not linear), or ``sqrt((1 - lambda_2) / (2 mu L))`` if that
        is less, lambda_2 the second eigenvalue of W and mu the mean modulus of convexity.

    References
    ----------
    Shi, Ling, Wu, Yin, "EXTRA: an exact first-order algorithm for decentralized consensus optimization", SIAM J. Optim. 25(2),
    2015, Algorithm 1; Li, Yan, "New convergence analysis of a primal-dual algorithm with large stepsizes", Adv. Comput. Math.
    47, 2021, for the bound.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1, lipschitz=2.0)
    >>> result = consensus.solve(problem, topologies.ring(5), consensus.solvers.EXTRA(), rounds=300)
    >>> result.w[:, 0].round(9).tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    step_size: float | Rule | None = None

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "by L_i, mu and W"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return step_below(problem, network, lambda values: (5 + 3 * values) / 4, lambda slow: math.sqrt(slow / 2))

    def step(self, problem: BaseProblem, network: Network, state: DualState) -> DualState:
        n, w, before = state
        (mixed,) = network.mix(n, w)
        new = mixed - value_at(self.step_size, n) * problem.average_gradient(w) + before
        return DualState(n + 1, new, before + (mixed - w) / 2)
