"""GT-SAGA: gradient tracking with a table of the samples' gradients."""

from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from consensus.problems import BaseProblem, Minibatches, Problem
from consensus.problems.minibatches import draw
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule
from consensus.variance_reduced.gradient_estimates import GradientEstimates
from consensus.variance_reduced.sample_gradients import check_table, renewed, whole_table


class GTSAGAState(NamedTuple):
    """:class:`EstimateState` with each sample's remembered gradient (agents, most, numbers), and their sum (agents, P)."""

    round: int
    w: np.ndarray
    ahead: np.ndarray
    v: np.ndarray
    table: np.ndarray
    total: np.ndarray


@dataclass(frozen=True)
class GTSAGA(GradientEstimates):
    """Gradient tracking over SAGA's estimates: every agent remembers the last gradient of each of its samples.

    In the average form ``G_i = sum_m g_im + grad r``, with g_im the gradient of agent i's sample m and h_im the remembered one.
    The batch B of round k has b of the n_i samples. With V(0) = G(X(0)) and h_im = g_im(x_i(0)),

        v_i(k) = (n_i / b) sum_{m in B} (g_im(x_i) - h_im) + sum_m h_im + grad r(x_i),     then h_im = g_im(x_i) for m in B,
        Y+ = W (Y + V(k) - V(k-1)),   X+ = W (X - alpha Y+) ,        Y(0) = V(-1) = 0 .

    With a constant step the agents reach a stationary point, linearly if U is strongly convex, without a whole gradient after
    the first. W is doubly stochastic, the f_i may be nonconvex, and their gradients differ by any amount.

    The table holds P numbers per sample, or one per output if the model is linear in w, as ``Linear``. More than 256 MB in the
    whole network are rejected: :class:`GTHSGD`, :class:`GTSARAH` and :class:`GTVR` have no table.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0.
    batch : int or Minibatches
        Samples of each agent and round; one in the paper.

    References
    ----------
    Xin, Khan, Kar, "A fast randomized incremental gradient method for decentralized nonconvex optimization", IEEE TAC 67(10),
    2022, Algorithm 1, with the batch that the estimate is made of for the one that is remembered.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import GTSAGA
    >>> X, y = np.arange(40.0).reshape(20, 2) / 20, np.arange(20.0) / 20
    >>> shards = consensus.partition(X, y, agents=5, scheme="sorted")
    >>> problem = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    >>> result = consensus.solve(problem, topologies.ring(5), GTSAGA(0.1), rounds=800, record_every=100)
    >>> bool(result.history["stationarity"][-1] < 1e-9)
    True
    """

    step_size: float | Rule
    batch: int | Minibatches = 1

    needs = Needs(regularizer="smooth", model=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch is None:
            raise TypeError("batch of GTSAGA must be a number of samples or a rule such as Minibatches(32); got None")

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        check_table(cast(Problem, problem), "GTSAGA", "GTHSGD, GTSARAH or GTVR")  # it has samples and a model, as `needs` says

    def init(self, problem: BaseProblem, w: np.ndarray) -> GTSAGAState:
        table, total = whole_table(cast(Problem, problem), w)
        v = problem.average_form(total.copy(), w)
        return GTSAGAState(0, w, v, v, table, total)

    def estimated(self, problem: BaseProblem, w: np.ndarray, state: GTSAGAState) -> GTSAGAState:
        batch = draw(self.batch, problem, state.round + 1)
        estimate, table, total = renewed(cast(Problem, problem), w, batch, state.table, state.total)
        return state._replace(v=problem.average_form(estimate, w), table=table, total=total)
