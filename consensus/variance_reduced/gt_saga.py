"""GT-SAGA: gradient tracking with a table of the samples' gradients."""

from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from consensus.problems import BaseProblem, Minibatches, Problem
from consensus.problems.batch import Batch
from consensus.problems.minibatches import draw
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule
from consensus.variance_reduced.gradient_estimates import GradientEstimates
from consensus.variance_reduced.sample_gradients import changes, numbers

_MOST = 1 << 28  # bytes of all agents' tables: one is copied in a round


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
        problem = cast(Problem, problem)  # here and below: it has samples and a model, as `needs` says
        samples, each = problem.shards.weights.shape[1], numbers(problem)
        size = problem.network_size * samples * each * problem.dtype.itemsize
        if size > _MOST:
            raise ValueError(
                f"GTSAGA remembers {each:,} numbers of every sample of {problem.model}: with up to {samples:,} samples an "
                f"agent {size / 2**20:,.0f} MB in all, and at most {_MOST >> 20} are allowed; use GTHSGD, GTSARAH or GTVR"
            )

    def init(self, problem: BaseProblem, w: np.ndarray) -> GTSAGAState:
        problem = cast(Problem, problem)
        everything = np.broadcast_to(np.arange(problem.weights.shape[1]), problem.weights.shape)
        nothing = np.zeros((*everything.shape, numbers(problem)), problem.dtype)
        table, sums = changes(problem, w, everything, nothing, problem.weights[:, None])
        problem.work.gradients += 1
        problem.work.samples += int(np.count_nonzero(problem.weights))
        v = problem.average_form(sums[:, 0].copy(), w)
        return GTSAGAState(0, w, v, v, table, sums[:, 0])

    def estimated(self, problem: BaseProblem, w: np.ndarray, state: GTSAGAState) -> GTSAGAState:
        problem = cast(Problem, problem)
        places, scale = cast(Batch, draw(self.batch, problem, state.round + 1))
        agents = np.arange(problem.agents)[:, None]
        c = np.take_along_axis(problem.weights, places, axis=1)
        weights = np.stack([c * scale, c * _first(places, scale > 0)], axis=1)
        new, sums = changes(problem, w, places, state.table[agents, places], weights)
        problem.work.gradients += 1
        problem.work.samples += int(np.count_nonzero(scale))
        table = state.table.copy()
        agent, column = np.nonzero(scale)
        table[agent, places[agent, column]] = new[agent, column]
        v = problem.average_form(state.total + sums[:, 0], w)
        return state._replace(v=v, table=table, total=state.total + sums[:, 1])


def _first(places: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Return where a sample comes for the first time in its agent's batch, which may hold it several times."""
    key = np.where(real, places, -1)
    order = np.argsort(key, axis=1, kind="stable")
    ascending = np.take_along_axis(key, order, axis=1)
    fresh = np.diff(ascending, axis=1, prepend=-1) > 0
    first = np.empty_like(fresh)
    np.put_along_axis(first, order, fresh, axis=1)
    return first
