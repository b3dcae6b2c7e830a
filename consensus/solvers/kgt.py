"""K-GT: gradient tracking with local steps."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.directions import Direction
from consensus.directions.base import NoMemory
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw, walked
from consensus.solvers.bounds import gap, lowest_eigenvalue, refuse_batches, refuse_directions, steepest, step_of_least
from consensus.solvers.direction import DirectionSolver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, positive_at
from topologies.schedules import ScheduleLike, is_static


class KGTState(NamedTuple):
    """Iterates and corrections c of local gradients, which add up to zero, both (agents, P); what the direction remembers."""

    round: int
    w: np.ndarray
    dual: np.ndarray
    direction: Any = NoMemory()


@dataclass(frozen=True, repr=False)
class KGT(DirectionSolver):
    """K local steps between two exchanges, along local gradients corrected by their difference from the neighbours'.

    On the average form ``f_i = A g_i + r``, with C0 = 0 and x = x_i at first, every agent does K times

        x <- x - alpha (grad f_i(x) + c_i) ,

    after which, with the mean Z of the K directions, Z = (X - x) / (K alpha), and one exchange of x and Z,

        C+ = C - Z + W Z,     X+ = W (X - K alpha s Z) .

    ``sum_i c_i = 0`` at every round. With K = 1 and s = 1 it is gradient tracking, with trackers Y = G(X) + C:
    ``X+ = W (X - alpha Y)``, ``Y+ = W Y + G(X+) - G(X)``.

    Theory is of a fixed W and smooth, also nonconvex f_i: stationary points for ``K alpha s = O((1 - rho)^2 / L)``. Convex
    quadratics were stable on all networks tried, with s = 1 and K up to 10 for ``alpha = 0.9 b``.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0. With equal quadratics of curvature L and K = s = 1 the exact bound is ``min(2, (1 - l^2) / |l|) / L``, l
        the least eigenvalue of W, and 2 / L if l >= 0. With ``b = min(1, (1 - l^2) / |l|) / L`` the default is 0.9 b, or
        ``(1 - lambda_2) / (K s sqrt(mu L))`` if that is less, with mu the mean modulus of convexity and lambda_2 the second
        eigenvalue of W. For models that are not linear it
        is at most b / (K s), with s > 1 half of that, and where W changes (1 - rho)^2 b / (2 K s).
    local_steps : int
        K.
    scale : float
        Factor s > 0 of the sum of the local steps.
    batch : int or Minibatches, optional
        Number of samples of each agent in every local step, fresh ones each time, instead of all. There is no default step
        then, and a constant alpha leaves the agents in a neighbourhood whose square is of order alpha.
    direction : Direction, optional
        Rule that turns the corrected gradients into the directions of the local steps: see :mod:`consensus.directions`. Z then
        is the mean of the K corrected gradients, as it is without one, so that gradients are tracked whatever the direction is.

    References
    ----------
    Liu, Lin, Koloskova, Stich, "Decentralized gradient tracking with local steps", Optimization Methods and Software, 2024,
    Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), consensus.solvers.KGT(0.01, local_steps=4), rounds=200).w.round(6).ravel()
    array([2., 2., 2., 2., 2.])
    """

    step_size: float | Rule | None = None
    local_steps: int = field(default=4, metadata={"count": 1})
    scale: float = field(default=1.0, metadata={"above": 0})
    batch: int | Minibatches | None = None
    direction: Direction | None = None

    tracked = True
    needs = Needs(regularizer="smooth", static=True)
    exchanges_a_round = 1
    sends = "w, z"
    default = "by L, mu and W"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        refuse_batches(self)
        refuse_directions(self)
        lowest, total = min(lowest_eigenvalue(network), -1e-9), self.local_steps * self.scale
        most = min(1.0, (1 - lowest**2) / -lowest)
        if not is_static(network):
            return gap(network) ** 2 * most / (2 * total * steepest(problem, network))
        if self.scale > 1:
            return step_of_least(problem, network, most / (2 * total), most / (2 * total), lambda slow: slow / total)
        return step_of_least(problem, network, 0.9 * most, most / total, lambda slow: slow / total)

    def init(self, problem: BaseProblem, w: np.ndarray) -> KGTState:
        return KGTState(0, w, np.zeros_like(w), self._memory(problem, w))

    def step(self, problem: BaseProblem, network: Network, state: KGTState) -> KGTState:
        n, w, c, memory = state
        alpha, steps = positive_at(self.step_size, n), range(n * self.local_steps, (n + 1) * self.local_steps)
        if self.direction is None:
            x = walked(problem, self.batch, steps, lambda x, g, c: x - alpha * (g + c), w, c)
            z = (w - x) / (self.local_steps * alpha)
        else:
            x, total = w, np.zeros_like(w)
            for k in steps:
                slope = problem.average_gradient(x, draw(self.batch, problem, k)) + c
                memory, d = self.direction.step(problem, memory, slope, x)
                x, total = x - alpha * d, total + slope
            z = total / self.local_steps
        w, mixed = network.mix(n, w + self.scale * (x - w), z)
        return KGTState(n + 1, w, c - z + mixed, memory)
