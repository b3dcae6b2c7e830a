"""QG-DSGDm: decentralised descent with quasi-global momentum."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.directions import Direction
from consensus.directions.base import NoMemory
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.direction import DirectionSolver
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, positive_at


class QGDSGDmState(NamedTuple):
    """Iterates w, momenta m, both (agents, P); and what the direction remembers."""

    round: int
    w: np.ndarray
    m: np.ndarray
    direction: Any = NoMemory()


@dataclass(frozen=True, repr=False)
class QGDSGDm(DirectionSolver):
    """Descent whose momentum follows the movement of mixed models, not an agent's own gradients.

    G stacks the gradients of the average form ``f_i = A g_i + r``, and M_0 = 0:

        X+ = W (X - alpha (beta M + G(X))),   M+ = mu M + (1 - mu) (X - X+) / alpha .

    If agents' data differ, so do their gradients, but the steps after mixing are nearly the same at all agents. It has the bias
    of :class:`DGD` at a constant alpha. The f_i may be nonconvex, and networks may change.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0. Near the end it acts as alpha / (1 - beta) does without momentum.
    batch : int or Minibatches, optional
        Samples of each agent and round from which G is estimated; all by default.
    momentum : float
        Weight beta of the past, in [0, 1).
    averaging : float, optional
        Weight mu of the past, in [0, 1); ``momentum`` by default, as in the paper.
    direction : Direction, optional
        Rule that turns G(X) into directions D, which take its place: see :mod:`consensus.directions`.

    References
    ----------
    Lin, Karimireddy, Stich, Jaggi, "Quasi-global momentum: accelerating decentralized deep learning on heterogeneous data",
    ICML 2021, Algorithm 1 (QG-DSGDm).

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import QGDSGDm
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> consensus.solve(problem, topologies.ring(5), QGDSGDm(0.005), rounds=900).mean.round(6)
    array([2.])
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None
    momentum: float = field(default=0.9, metadata={"least": 0, "below": 1})
    averaging: float | None = field(default=None, metadata={"least": 0, "below": 1})
    direction: Direction | None = None

    needs = Needs(regularizer="smooth")
    exchanges_a_round = 1
    sends = "w"

    def init(self, problem: BaseProblem, w: np.ndarray) -> QGDSGDmState:
        return QGDSGDmState(0, w, np.zeros_like(w), self._memory(problem, w))

    def step(self, problem: BaseProblem, network: Network, state: QGDSGDmState) -> QGDSGDmState:
        n, w, m, memory = state
        alpha, beta = positive_at(self.step_size, n), self.momentum
        mu = beta if self.averaging is None else self.averaging
        d = problem.average_gradient(w, draw(self.batch, problem, n))
        if self.direction is not None:
            memory, d = self.direction.step(problem, memory, d, w)
        (new,) = network.mix(n, w - alpha * (beta * m + d))
        return QGDSGDmState(n + 1, new, mu * m + (1 - mu) / alpha * (w - new), memory)
