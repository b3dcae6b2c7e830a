"""D2: exact diffusion for gradients from batches."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus.communication.network import Network
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.base import Solver
from consensus.solvers.bounds import lowest_eigenvalue, refuse_batches, steepest
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule, value_at
from topologies.schedules import ScheduleLike, is_static


class D2State(NamedTuple):
    """Iterates w, and the points p of the last gradient step, both (agents, P)."""

    round: int
    w: np.ndarray
    p: np.ndarray


@dataclass(frozen=True)
class D2(Solver):
    """Decentralised descent without the bias that differences between agents' data cause.

    G stacks the gradients of the average form ``f_i = A g_i + r``, each from a batch, and P_0 = X_0:

        P+ = X - alpha G(X),   X+ = W (P+ + X - P) ,

    which is ``X+ = W (2 X - X before - alpha G + alpha G before)`` after a first round ``X_1 = W (X_0 - alpha G_0)``. The f_i
    may be nonconvex, and their gradients differ by any amount: with batches and a constant alpha the agents stay at a distance
    from a stationary point whose square is of order alpha. With whole gradients it is exact diffusion with W for (I + W) / 2.

    W is static, symmetric and doubly stochastic, and its least eigenvalue above -1/3: others are rejected, because the agents
    would never agree. The eigenvalues of ``topologies.lazy(topologies.metropolis)`` are not negative.

    Parameters
    ----------
    step_size : float or rule, optional
        Step alpha > 0. Equal quadratics of curvature L are stable below 2 / L on every network; 1 / L is the default without a
        batch.
    batch : int or Minibatches, optional
        Samples of each agent and round from which G is estimated; all by default.

    References
    ----------
    Tang, Lian, Yan, Zhang, Liu, "D2: decentralized training over decentralized data", ICML 2018, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import D2
    >>> X, y = np.arange(40.0).reshape(20, 2) / 20, np.arange(20.0) / 20
    >>> shards = consensus.partition(X, y, agents=5, scheme="sorted")
    >>> problem = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    >>> result = consensus.solve(problem, topologies.ring(5), D2(0.05, batch=2), rounds=400)
    >>> bool(result.history["stationarity"][-1] < 0.05 * result.history["stationarity"][0])
    True
    """

    step_size: float | Rule | None = None
    batch: int | Minibatches | None = None

    needs = Needs(regularizer="smooth", mixing="symmetric", static=True)
    exchanges_a_round = 1
    sends = "w"
    default = "1 / L"

    def check_network(self, schedule: ScheduleLike) -> None:
        least = lowest_eigenvalue(schedule) if is_static(schedule) else 0.0
        if not least > -1 / 3 + 1e-9:
            raise ValueError(
                f"D2 needs mixing matrices whose eigenvalues are all above -1/3, and the least of {schedule} is {least:.6g}: "
                "give topologies.Static(graph, weights=topologies.lazy(topologies.metropolis))"
            )

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        refuse_batches(self)
        return 1 / steepest(problem, network)

    def init(self, problem: BaseProblem, w: np.ndarray) -> D2State:
        return D2State(0, w, w)

    def step(self, problem: BaseProblem, network: Network, state: D2State) -> D2State:
        n, w, before = state
        p = problem.descended(w, value_at(self.step_size, n), w, draw(self.batch, problem, n))
        (w,) = network.mix(n, p + w - before)
        return D2State(n + 1, w, p)
