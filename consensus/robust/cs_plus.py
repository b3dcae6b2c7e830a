"""Clipping to a level set by the tolerated weight."""

from dataclasses import dataclass

import numpy as np

from consensus.communication.messages import Messages
from consensus.robust.base import SLACK, Differences, Robust, clipped


@dataclass(frozen=True)
class CSPlus(Robust):
    """Another solver with CS+ wherever it mixes: of what an agent hears, the farthest weight 2b is clipped.

    Agent i has its own row x_i and hears rows x_j with weights W_ij:

        x_i+ = x_i + sum_j W_ij min(1, t_i / |x_j - x_i|) (x_j - x_i)

    where t_i is the largest distance |x_j - x_i| such that messages of a weight of at least 2b come from farther away; zero if
    there is none. Liars of weight at most b then move an agent by no more than the honest messages that are clipped would.
    With equal weights on all edges, 1 / (1 + d) of :func:`topologies.max_degree`, k liars around an agent weigh k / (1 + d).

    Theory is of methods that average iterates and descend, as :class:`consensus.solvers.DGD`. Where b is small beside the
    second smallest eigenvalue of the Laplacian of the honest agents' graph, with edges of weights W_ij, their disagreement
    shrinks linearly, whatever liars say, and their mean drifts by no more than in proportion to it.

    Parameters
    ----------
    solver : Solver
        One for doubly stochastic matrices.
    tolerated : float
        b, the weight of liars that every agent tolerates.
    before : PreAggregation, optional
        What agents do with the messages first: :class:`NNM` or :class:`Bucketing`.

    References
    ----------
    Gaucher, Dieuleveut, Hendrikx, "Unified breakdown analysis for Byzantine robust gossip", ICML 2025.

    Examples
    --------
    Twelve agents on a complete graph want to be where their centres are on average; one of them lies:

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
    ...     result = consensus.solve(problem, network, Attack(solver, liars=[3], lie=SignFlip()), rounds=500, start=[0.0])
    ...     print(result.mean.round(1), np.delete(centres, 3).mean().round(1))
    >>> honest(DGD(0.05))
    [1.1] 5.0
    >>> honest(CSPlus(DGD(0.05), tolerated=1 / 12))
    [4.9] 5.0
    """

    left_out = 2

    def aggregate(self, heard: Messages) -> np.ndarray:
        messages, levels = Differences.of(heard), np.zeros(len(heard.own))
        near = messages.farther >= 2 * self.tolerated * (1 - SLACK)
        np.maximum.at(levels, heard.receivers[near], messages.distances[near])
        return clipped(heard, messages, levels)
