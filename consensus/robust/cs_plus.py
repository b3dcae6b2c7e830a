"""CS+: clipping at a level set by the tolerated weight."""

from dataclasses import dataclass

import numpy as np

from consensus.communication import Messages
from consensus.robust.base import SLACK, Differences, Robust, clipped


@dataclass(frozen=True)
class CSPlus(Robust):
    """Another solver that mixes by CS+: each agent clips the farthest rows, of weight 2b, of those it receives.

    Agent i has its own row x_i and receives rows x_j with weights W_ij:

        x_i+ = x_i + sum_j W_ij min(1, t_i / |x_j - x_i|) (x_j - x_i)

    where t_i is the largest distance ``|x_j - x_i|`` such that rows of weight at least 2b are farther away, or zero if there is
    none. Byzantine agents of weight at most b then move an agent by no more than the clipped honest rows would. With
    :func:`topologies.max_degree` every edge weighs 1 / (1 + d), with d the largest degree, and k Byzantine neighbours weigh
    k / (1 + d).

    The theory covers methods that average iterates and descend, such as :class:`consensus.solvers.DGD`. If b is small compared
    with the second smallest eigenvalue of the Laplacian of the honest agents' graph, whose edges have weights W_ij, their
    disagreement shrinks linearly under any attack, and the drift of their mean is at most proportional to it.

    Parameters
    ----------
    solver : Solver
        A solver for doubly stochastic matrices.
    byzantine_weight : float
        Tolerated weight b of Byzantine agents among each agent's neighbours.
    before : PreAggregation, optional
        Preparation of the messages: :class:`NNM` or :class:`Bucketing`.

    References
    ----------
    Gaucher, Dieuleveut, Hendrikx, "Unified breakdown analysis for Byzantine robust gossip", ICML 2025.

    Examples
    --------
    The optimum of twelve agents on a complete graph is the mean of their centres; agent 3 is Byzantine:

    >>> import consensus, topologies
    >>> from consensus.robust import Attack, SignFlip
    >>> from consensus.solvers import DGD
    >>> import numpy as np
    >>> from consensus.robust import CSPlus
    >>> centres = 5 + np.random.default_rng(0).standard_normal((12, 1))
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1) / 24, lambda w: (w - centres) / 12, agents=12, parameters=1)
    >>> network = topologies.Static(topologies.complete(12), weights=topologies.max_degree)
    >>> def honest(solver):
    ...     result = consensus.solve(problem, network, Attack(solver, [3], SignFlip()), rounds=500, start=[0.0])
    ...     print(result.mean.round(1), np.delete(centres, 3).mean().round(1))
    >>> honest(DGD(0.05))
    [1.1] 5.0
    >>> honest(CSPlus(DGD(0.05), byzantine_weight=1 / 12))
    [4.9] 5.0
    """

    excluded = 2

    def aggregate(self, messages: Messages) -> np.ndarray:
        relative, levels = Differences.of(messages), np.zeros(len(messages.own))
        near = relative.farther >= 2 * self.byzantine_weight * (1 - SLACK)
        np.maximum.at(levels, messages.receivers[near], relative.distances[near])
        return clipped(messages, relative, levels)
