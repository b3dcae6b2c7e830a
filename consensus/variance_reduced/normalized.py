"""Normalized gradient tracking: steps of one length, for noise with heavy tails."""

from dataclasses import dataclass, field
from typing import cast

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.step_sizes import Rule
from consensus.variance_reduced.gradient_estimates import EstimateState, GradientEstimates


@dataclass(frozen=True)
class Normalized(GradientEstimates):
    """Gradient tracking over running averages of gradients, with steps of length alpha: for noise with heavy tails.

    G(X; k) stacks the gradients of the average form ``f_i = A g_i + r`` from the batches of round k. With Y(-1) = V(-1) = 0,

        V(k) = beta V(k-1) + (1 - beta) G(X(k); k) ,
        Y(k) = W (Y(k-1) + V(k) - V(k-1)) ,
        x_i(k+1) = sum_j w_ij (x_j(k) - alpha y_j(k) / max(|y_j(k)|, floor)) .

    The agents send Y(k-1) + V(k) - V(k-1), then the points to which they step. ``sum_i y_i(k) = sum_i v_i(k)`` in every round.
    A single sample moves an agent by alpha at most, however large its gradient is: the noise may have an infinite variance.
    With moments of order p in (1, 2] alone the mean gradient norm falls as ``k^(-(p - 1) / (3 p - 2))``, the best possible
    order, if alpha and 1 - beta fall with the number of rounds as the paper says. W is doubly stochastic and fixed in its
    theory; the f_i may be nonconvex.

    The paper has ``floor = 0``: near an optimum the agents then jump over it by alpha, so let alpha fall. With a floor > 0 the
    steps near an optimum are those of gradient tracking with the step alpha / floor, and a constant alpha reaches it if there
    is no noise.

    Parameters
    ----------
    step_size : float or rule
        Length alpha > 0 of the agents' steps.
    batch : int or Minibatches, optional
        Samples of each agent and round; all by default.
    momentum : float
        Weight beta of the past gradients, in [0, 1).
    floor : float
        Norm, >= 0, of the trackers below which steps are shorter than alpha.

    References
    ----------
    Yu, Jakovetic, Kar, "Decentralized nonconvex optimization under heavy-tailed noise: normalization and optimal convergence",
    arXiv 2505.03736, 2025, section on GT-NSGDm.

    Examples
    --------
    Targets whose noise has no variance:

    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import Normalized
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> y = X @ [1.0, -2.0] + 0.1 * rng.standard_t(1.5, 200)
    >>> shards = consensus.partition(X, y, agents=5)
    >>> problem = consensus.Problem(consensus.Linear(2, bias=False), consensus.SquaredLoss(), shards)
    >>> solver = Normalized(consensus.step_sizes.InverseSqrt(0.1), batch=2)
    >>> consensus.solve(problem, topologies.ring(5), solver, rounds=600).mean.round(1)
    array([ 1., -2.])
    """

    step_size: float | Rule
    batch: int | Minibatches | None = None
    momentum: float = field(default=0.9, metadata={"least": 0, "below": 1})
    floor: float = field(default=0.0, metadata={"least": 0})

    def _moved(self, w: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
        norms = np.linalg.norm(y, axis=1, keepdims=True)
        least = max(self.floor, float(np.finfo(y.dtype).tiny))  # 0 / 0 is no step
        return cast(np.ndarray, w - alpha * (y / np.maximum(norms, least)))

    def init(self, problem: BaseProblem, w: np.ndarray) -> EstimateState:
        v = (1 - self.momentum) * _checks.problem(problem).average_gradient(w, draw(self.batch, problem, 0))
        return EstimateState(0, w, v, v)

    def estimated(self, problem: BaseProblem, w: np.ndarray, state: EstimateState) -> EstimateState:
        new = problem.average_gradient(w, draw(self.batch, problem, state.round + 1))
        return state._replace(v=self.momentum * state.v + (1 - self.momentum) * new)
