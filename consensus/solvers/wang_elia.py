"""Wang and Elia's controller."""

from dataclasses import dataclass

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.bounds import lowest_eigenvalue, steepest
from consensus.solvers.needs import Needs
from consensus.solvers.states import DualSolver, DualState
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class WangElia(DualSolver):
    """Consensus as a control loop: the disagreement acts on X in proportion and by its integral Z.

    G stacks the gradients of the average form ``f_i = A g_i + r``, K = (I - W) / 2, and Z_0 = 0:

        X+ = X - K (X + Z) - alpha G(X),   Z+ = Z + K X .

    The agents send X and Z together. For convex smooth f_i and one symmetric W; linear convergence if U is strongly convex.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0; a constant, for the theory. With equal quadratics of curvature L at all agents it is stable below
        ``(2 - k + k^2 / 2) / L``, k = (1 - lmin(W)) / 2 the largest eigenvalue of K; half of that by default.

    References
    ----------
    Wang, Elia, "Control approach to distributed optimization", 48th Allerton Conference, 2010, discretised with a step of one.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import WangElia
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1, lipschitz=2.0)
    >>> consensus.solve(problem, topologies.ring(5), WangElia(), rounds=1000).w[:, 0].round(9).tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0]
    """

    step_size: float | Rule | None = None

    needs = Needs(regularizer="smooth", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w, z"
    default = "by L and lmin"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        k = (1 - lowest_eigenvalue(network)) / 2
        return (2 - k + k**2 / 2) / (2 * steepest(problem, network))

    def step(self, problem: BaseProblem, network: Network, state: DualState) -> DualState:
        n, w, z = state
        mixed_w, mixed_z = network.mix(n, w, z)
        kw, kz = (w - mixed_w) / 2, (z - mixed_z) / 2
        return DualState(n + 1, w - (kw + kz) - value_at(self.step_size, n) * problem.average_gradient(w), z + kw)
