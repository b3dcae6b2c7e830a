"""LT-ADMM-VR: ADMM with local training on batches whose noise vanishes."""

from dataclasses import dataclass, field
from typing import cast

from consensus.communication.network import Network
from consensus.problems import BaseProblem, Minibatches, Problem
from consensus.problems.minibatches import draw
from consensus.solvers.needs import Needs
from consensus.solvers.states import DualSolver, DualState
from consensus.step_sizes import Rule, positive_at
from consensus.variance_reduced.sample_gradients import check_table, renewed, whole_table


@dataclass(frozen=True)
class LTADMMVR(DualSolver):
    """:class:`LTADMM` whose local steps take batches, by SAGA's estimates around the point at which the round began.

    In the average form ``G_i = sum_m g_im + grad r``, with g_im the gradient of agent i's sample m and h_im the remembered one.
    W is the mixing matrix, U before the first round zero. In each round, from V = X and ``h_im = g_im(x_i)`` for all samples,

        U <- U + rho/2 (I - W) X
        e_i = (n_i / b) sum_{m in B} (g_im(v_i) - h_im) + sum_m h_im + grad r(v_i)
        v_i <- v_i - gamma (e_i + u_i + rho/2 ((I - W) X)_i)
        h_im <- g_im(v_i) for m in B, at the new v_i                          these three local_steps times
        X <- V

    Each local step has a batch B of its own, of b of the n_i samples, whose gradients are taken twice; each round takes one
    whole gradient beside them. With a constant step the agents reach a stationary point, of strongly convex costs linearly. As
    in :class:`LTADMM` an edge has the penalty rho w_ij. W is static and symmetric, r smooth; the f_i may be nonconvex.

    The table holds P numbers per sample, or one per output if the model is linear in w, as ``Linear``: up to 256 MB.

    Parameters
    ----------
    step_size : float or rule
        Step gamma > 0.
    local_steps : int
        Local steps in a round.
    batch : int or Minibatches
        Samples of each agent and local step.
    penalty : float, optional
        Penalty rho > 0; by default 1 / (local_steps gamma).

    References
    ----------
    Ren, Bastianello, Johansson, Parisini, "Communication-efficient stochastic distributed learning", arXiv 2501.13516, 2025,
    the variance-reduced form of Algorithm 1, with beta = gamma.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import LTADMMVR
    >>> X, y = np.arange(40.0).reshape(20, 2) / 20, np.arange(20.0) / 20
    >>> shards = consensus.partition(X, y, agents=5, scheme="sorted")
    >>> problem = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    >>> result = consensus.solve(problem, topologies.ring(5), LTADMMVR(0.1), rounds=400, record_every=100)
    >>> bool(result.history["stationarity"][-1] < 1e-9)
    True
    """

    step_size: float | Rule
    local_steps: int = field(default=5, metadata={"count": 1})
    batch: int | Minibatches = 1
    penalty: float | None = field(default=None, metadata={"above": 0})

    needs = Needs(regularizer="smooth", mixing="symmetric", static=True, model=True)
    exchanges_a_round = 1
    sends = "w"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch is None:
            raise TypeError("batch of LTADMMVR must be a number of samples or a rule; got None: LTADMM takes all samples")

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        check_table(
            cast(Problem, problem), "LTADMMVR", "GTHSGD, GTSARAH or GTVR"
        )  # it has samples and a model, as `needs` says

    def step(self, problem: BaseProblem, network: Network, state: DualState) -> DualState:
        n, w, dual = state
        own = cast(Problem, problem)
        gamma = positive_at(self.step_size, n)
        rho = 1 / (self.local_steps * gamma) if self.penalty is None else self.penalty
        (mixed,) = network.mix(n, w)
        coupling = rho / 2 * (w - mixed)
        dual = dual + coupling
        correction = dual + coupling
        table, total = whole_table(own, w)
        for k in range(n * self.local_steps, (n + 1) * self.local_steps):
            batch = draw(self.batch, problem, k)
            estimate, _, _ = renewed(own, w, batch, table, total)
            w = w - gamma * (problem.average_form(estimate, w) + correction)
            _, table, total = renewed(own, w, batch, table, total)
        return DualState(n + 1, w, dual)
