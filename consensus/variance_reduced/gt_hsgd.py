"""GT-HSGD: gradient tracking with hybrid variance reduction."""

from dataclasses import dataclass, field

import numpy as np

from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.step_sizes import Rule
from consensus.variance_reduced.gradient_estimates import EstimateState, GradientEstimates


@dataclass(frozen=True)
class GTHSGD(GradientEstimates):
    """Gradient tracking over hybrid estimates: no whole gradient after the first, and no large batches.

    G(X; k) stacks the gradients of the average form ``f_i = A g_i + r`` from the batches of round k. With V(0) = G(X(0)), the
    whole gradients,

        V(k) = G(X(k); k) + (1 - beta) (V(k-1) - G(X(k-1); k)) ,
        Y+ = W (Y + V(k) - V(k-1)),   X+ = W (X - alpha Y+) ,        Y(0) = V(-1) = 0 .

    Both gradients of a round are from the same batch. beta = 1 is gradient tracking with batches; a smaller beta makes V less
    noisy, but slower to forget: theory takes beta of order alpha^2, both falling with the number of rounds. W is doubly
    stochastic, the f_i may be nonconvex, and their gradients differ by any amount.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0.
    batch : int or Minibatches, optional
        Samples of each agent and round; all by default.
    beta : float
        Weight beta of the new gradients, in (0, 1].

    References
    ----------
    Xin, Khan, Kar, "A hybrid variance-reduced method for decentralized stochastic non-convex optimization", ICML 2021,
    Algorithm 1, with all samples for the first estimate.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import GTHSGD
    >>> X, y = np.arange(40.0).reshape(20, 2) / 20, np.arange(20.0) / 20
    >>> shards = consensus.partition(X, y, agents=5, scheme="sorted")
    >>> problem = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    >>> result = consensus.solve(problem, topologies.ring(5), GTHSGD(0.05, batch=1), rounds=400)
    >>> bool(result.history["stationarity"][-1] < 0.02 * result.history["stationarity"][0])
    True
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None
    beta: float = field(default=0.1, metadata={"above": 0, "most": 1})

    def estimated(self, problem: BaseProblem, w: np.ndarray, state: EstimateState) -> EstimateState:
        batch, kept = draw(self.batch, problem, state.round + 1), 1 - self.beta
        new, old = problem.average_gradient(w, batch), problem.average_gradient(state.w, batch)
        return state._replace(v=new + kept * (state.v - old))
