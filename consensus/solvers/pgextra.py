"""PG-EXTRA."""

from dataclasses import dataclass

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.extra import EXTRA
from consensus.solvers.needs import Needs
from consensus.solvers.states import DualSolver, DualState
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class PGEXTRA(DualSolver):
    """The proximal gradient form of :class:`consensus.solvers.EXTRA`, for any convex r.

    G stacks the gradients of ``A g_i``, and W~ = (I + W) / 2. With V1 = W X0 - alpha G(X0),

        X_k = prox_{alpha r}(V_k),   V_{k+1} = V_k + W X_k - W~ X_{k-1} - alpha (G(X_k) - G(X_{k-1})) ,

    which telescopes to ``V_{k+1} = W X_k - alpha G(X_k) + S_k`` with ``S_{k+1} = S_k + (W - I) X_k / 2``, S_0 = 0. The agents
    send X. For convex smooth g_i and one symmetric W the optimality gap falls as 1 / k.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0; a constant, for the theory. Stable below (5 + 3 lmin(W)) / (4 L), with L the largest of the Lipschitz
        constants of the A grad g_i (Li and Yan; the paper proves it below (1 + lmin(W)) / L). The default is that
        of :class:`consensus.solvers.EXTRA`, which may be above that where the L_i differ: proved for quadratics with no r.

    References
    ----------
    Shi, Ling, Wu, Yin, "A proximal gradient algorithm for decentralized composite optimization", IEEE Trans. Signal Process.
    63(22), 2015, Algorithm 1 and Theorem 1; Li, Yan, "New convergence analysis of a primal-dual algorithm with large
    stepsizes", Adv. Comput. Math. 47, 2021, for the bound.

    Examples
    --------
    The sum of ``|w - centre|^2 / 2`` and ``2 |w|``: the mean of the centres, 2, less 2 / 5.

    >>> import numpy as np, consensus, topologies
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1) / 2, lambda w: w - centres, agents=5, parameters=1,
    ...     regularizer=consensus.L1(2.0), lipschitz=1.0)
    >>> consensus.solve(problem, topologies.ring(5), consensus.solvers.PGEXTRA(), rounds=300).mean.round(9)
    array([1.6])
    """

    step_size: float | Rule | None = None

    needs = Needs(regularizer="prox", convex=True, mixing="symmetric", static=True, own_regularizers=True)
    exchanges_a_round = 1
    sends = "w"
    default = "by L_i, mu and W"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return EXTRA().stable_step(problem, network)

    def step(self, problem: BaseProblem, network: Network, state: DualState) -> DualState:
        n, w, before = state
        alpha = value_at(self.step_size, n)
        (mixed,) = network.mix(n, w)
        v = mixed - alpha * problem.network_size * problem.gradient(w) + before
        # S_{k+1} = V_{k+1} - W~ X_k + alpha G(X_k) = S_k + (W - I) X_k / 2
        return DualState(n + 1, problem.regularizer.prox(v, alpha), before + (mixed - w) / 2)
