"""NIDS."""

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


class NIDSState(NamedTuple):
    """Iterates w, the points p of the last gradient step, and the correction z - w by the prox; all (agents, P)."""

    round: int
    w: np.ndarray
    p: np.ndarray
    correction: np.ndarray


@dataclass(frozen=True)
class NIDS(Solver):
    """The network-independent step-size algorithm, for any convex r.

    G stacks the gradients of ``A g_i``, and W~ = (I + W) / 2:

        X_k = prox_{alpha r}(Z_k),
        Z_{k+1} = Z_k - X_k + W~ (2 X_k - X_{k-1} - alpha G(X_k) + alpha G(X_{k-1})) .

    Z_1 is W~ (X_0 - alpha G(X_0)), so that the first round has an exchange, too; in the paper it is X_0 - alpha G(X_0). The
    theorems hold for both. The agents send what W~ multiplies.

    For convex smooth g_i and one symmetric W the optimality gap falls as o(1 / k). With r = 0 it is
    :class:`consensus.solvers.ExactDiffusion`, and linear if U is strongly convex.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0; a constant, for the theory. Stable below 2 / L on every network, with L the largest of the Lipschitz
        constants of the A grad g_i; half of that by default.

    References
    ----------
    Li, Shi, Yan, "A decentralized proximal-gradient method with network independent step-sizes and separated convergence
    rates", IEEE Trans. Signal Process. 67(17), 2019, Algorithm 1 and Theorem 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import NIDS
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1) / 2, lambda w: w - centres, agents=5, parameters=1,
    ...     regularizer=consensus.L1(2.0), lipschitz=1.0)
    >>> consensus.solve(problem, topologies.ring(5), NIDS(), rounds=300).mean.round(9)
    array([1.6])
    """

    step_size: float | Rule | None = None

    needs = Needs(regularizer="prox", convex=True, mixing="symmetric", static=True, own_regularizers=True)
    exchanges_a_round = 1
    sends = "w"
    default = "1 / L"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return 1 / steepest(problem, network)

    def init(self, problem: BaseProblem, w: np.ndarray) -> NIDSState:
        return NIDSState(0, w, w, np.zeros_like(w))

    def step(self, problem: BaseProblem, network: Network, state: NIDSState) -> NIDSState:
        n, w, before, correction = state
        alpha = value_at(self.step_size, n)
        p = w - alpha * problem.network_size * problem.gradient(w)
        corrected = p + w - before
        (mixed,) = network.mix(n, corrected)
        z = (mixed + corrected) / 2 + correction
        w = problem.regularizer.prox(z, alpha)
        return NIDSState(n + 1, w, p, z - w)
