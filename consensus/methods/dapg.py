"""DAPG: accelerated proximal gradient descent along tracked gradients."""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem
from consensus.solvers.base import Solver, settled
from consensus.solvers.bounds import lowest_eigenvalue, middle_curvature, six_digits, steepest, step_below
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


class DAPGState(NamedTuple):
    """Iterates w, the extrapolated points y, trackers s, and the gradients at the y before; all (agents, P)."""

    round: int
    w: np.ndarray
    y: np.ndarray
    s: np.ndarray
    gradient: np.ndarray


@dataclass(frozen=True)
class DAPG(Solver):
    """Nesterov's acceleration for any convex regularizer: proximal gradient steps along a tracked gradient.

    G stacks the gradients of ``A g_i``, theta = sqrt(mu alpha), Y_0 = X_0, and S = G = 0 before the first round:

        S+ = W (S + G(Y) - G(Y before)) ,
        X+ = W prox_{alpha r}(Y - alpha S+) ,
        Y+ = X+ + (1 - theta) / (1 + theta) (X+ - X) .

    The agents send S + G(Y) - G(Y before), then the results of the prox. One symmetric W; sum_i g_i smooth and strongly convex,
    r any convex function. With enough exchanges in place of W, ``Gossip(DAPG(), k, gap)`` with k of order
    ``log(L / mu) / sqrt(gap)``, the number of gradients grows as sqrt(L / mu) and that of exchanges is the least possible up to
    the logarithm. One exchange in place of each W works, too, where the eigenvalues of W are above -1/3.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0; a constant, for the theory, at most 1 / L, with L the largest of the Lipschitz constants of the A grad
        g_i. Equal quadratics of curvature L are stable for ``alpha L < (1 + l) (1 + 3 l) / (6 l^2)`` for all eigenvalues l of
        W, however small theta is. The default is 0.9 of the least of both, for models that are not linear half, or
        ``(1 - lambda_2) / sqrt(mu L)`` if that is less, lambda_2 the second eigenvalue of W: where few exchanges make the
        agents agree slowly, shorter steps are faster.
    convexity : float, optional
        The modulus of strong convexity mu > 0 of the mean of the A g_i. By default the mean of ``problem.strong_convexity()``,
        and at least L / 10^4, also if nothing is known of it.

    References
    ----------
    Ye, Zhou, Luo, Zhang, "Decentralized accelerated proximal gradient descent", NeurIPS 2020, the section on the algorithm,
    with W or the exchanges of ``Gossip`` for its FastMix.

    Examples
    --------
    The sum of ``|w - centre|^2 / 2`` and ``2 |w|``: the mean of the centres, 2, less 2 / 5.

    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import DAPG, Gossip
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1) / 2, lambda w: w - centres, agents=5, parameters=1,
    ...     regularizer=consensus.L1(2.0), lipschitz=1.0)
    >>> network = topologies.Static(topologies.ring(5))
    >>> solver = Gossip(DAPG(convexity=1.0), exchanges=4, gap=topologies.spectral_gap(network.weights(0)))
    >>> consensus.solve(problem, network, solver, rounds=100).mean.round(9)
    array([1.6])
    """

    step_size: float | Rule | None = None
    convexity: float | None = field(default=None, metadata={"above": 0})

    needs = Needs(regularizer="prox", convex=True, mixing="symmetric", static=True)
    exchanges_a_round = 2
    sends = "w, s"
    default = "by L_i, mu and W"

    def check_network(self, schedule: ScheduleLike) -> None:
        least = lowest_eigenvalue(schedule)
        if not least > -1 / 3 + 1e-9:
            raise ValueError(
                f"DAPG needs mixing matrices whose eigenvalues are all above -1/3, and the least of {schedule} is {least:.6g}: "
                "give topologies.Static(graph, weights=topologies.lazy(topologies.metropolis)), or more exchanges by Gossip"
            )

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        return step_below(problem, network, _bound, lambda slow: slow)

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        ready = super().prepared(problem, network)
        if self.convexity is not None:
            return ready
        largest = steepest(problem, network)
        return replace(ready, convexity=six_digits(middle_curvature(problem, largest) ** 2 / largest))

    def init(self, problem: BaseProblem, w: np.ndarray) -> DAPGState:
        return DAPGState(0, w, w, np.zeros_like(w), np.zeros_like(w))

    def step(self, problem: BaseProblem, network: Network, state: DAPGState) -> DAPGState:
        n, before, y, s, old = state
        alpha = value_at(self.step_size, n)
        theta = math.sqrt(settled(self.convexity, "convexity") * alpha)
        gradient = problem.network_size * problem.gradient(y)
        (s,) = network.mix(n, s + gradient - old)
        (w,) = network.mix(n, problem.regularizer.prox(y - alpha * s, alpha))
        return DAPGState(n + 1, w, w + (1 - theta) / (1 + theta) * (w - before), s, gradient)


def _bound(values: np.ndarray) -> np.ndarray:
    """Return how large alpha L may be for each eigenvalue of W, without strong convexity."""
    return np.asarray(np.minimum(1.0, (1 + values) * (1 + 3 * values) / (6 * values**2)))
