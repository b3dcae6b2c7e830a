"""Decentralised gradient descent."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.directions import Direction
from consensus.directions.base import NoMemory
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.bounds import lowest_eigenvalue, refuse_batches, refuse_directions, steepest
from consensus.solvers.direction import DirectionSolver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike


class DGDState(NamedTuple):
    """Iterates w (agents, P), and what the direction remembers."""

    round: int
    w: np.ndarray
    direction: Any = NoMemory()


@dataclass(frozen=True, repr=False)
class DGD(DirectionSolver):
    """Average with the neighbours, then descend on the local cost: ``X+ = W X - alpha G(X)``.

    G stacks the gradients of the average form ``f_i = A g_i + r``. With a constant alpha it ends at the minimiser of
    ``sum_i f_i(x_i) + |X|^2_{I - W} / (2 alpha)``, at a distance O(alpha / (1 - rho)) from the optimum; with alpha ~ n^-1/2
    (:class:`consensus.step_sizes.InverseSqrt`) it approaches the optimum slowly.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0. With convex f_i, whose gradients have Lipschitz constants of at most L, a constant below
        (1 + lmin(W)) / L is stable; without a batch half of that is the default.
    batch : int or Minibatches, optional
        Number of samples of each agent in every round, instead of all: decentralised stochastic gradient descent. With a
        constant alpha the agents then stay in a neighbourhood of that point, whose square is of order alpha.
    direction : Direction, optional
        Rule that turns G(X) into the directions D of the steps, ``X+ = W X - alpha D``: see :mod:`consensus.directions`. With
        :class:`consensus.directions.AdamW` it is decentralised AdamW.

    References
    ----------
    Nedic, Ozdaglar, "Distributed subgradient methods for multi-agent optimization", IEEE TAC 54(1), 2009, eq. (3); Yuan,
    Ling, Yin, "On the convergence of decentralized gradient descent", SIAM J. Optim. 26(3), 2016; Lian et al., "Can
    decentralized algorithms outperform centralized algorithms?", NeurIPS 2017, Algorithm 1, for batches.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import DGD
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> for step_size in (0.02, 0.002):  # the minimiser is 2; the distance is proportional to the step
    ...     result = consensus.solve(problem, topologies.ring(5), DGD(step_size), rounds=2000, record_every=2000)
    ...     print(result.w[:, 0].round(3).tolist())
    [1.555, 1.598, 2.0, 2.402, 2.445]
    [1.942, 1.943, 2.0, 2.057, 2.058]
    """

    step_size: float | Rule | None = None
    batch: int | Minibatches | None = None
    direction: Direction | None = None

    needs = Needs(regularizer="smooth")
    exchanges_a_round = 1
    sends = "w"
    default = "(1 + lmin) / (2 L)"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        refuse_batches(self)
        refuse_directions(self)
        return (1 + lowest_eigenvalue(network)) / (2 * steepest(problem, network))

    def init(self, problem: BaseProblem, w: np.ndarray) -> DGDState:
        return DGDState(0, w, self._memory(problem, w))

    def step(self, problem: BaseProblem, network: Network, state: DGDState) -> DGDState:
        n, w, memory = state
        (mixed,) = network.mix(n, w)
        alpha, batch = value_at(self.step_size, n), draw(self.batch, problem, n)
        if self.direction is None:
            return DGDState(n + 1, problem.descended(mixed, alpha, w, batch))
        memory, d = self.direction.step(problem, memory, problem.average_gradient(w, batch), w)
        return DGDState(n + 1, mixed - alpha * d, memory)
