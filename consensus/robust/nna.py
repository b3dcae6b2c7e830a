"""Nearest-neighbour averaging."""

from dataclasses import dataclass

import numpy as np

from consensus.communication import Messages
from consensus.robust.base import Differences, Robust, bare


@dataclass(frozen=True)
class NNA(Robust):
    """Another solver that mixes by nearest-neighbour averaging: each agent drops the farthest rows, of weight b.

    Agent i has its own row x_i and receives rows x_j with weights W_ij:

        x_i+ = (W_ii x_i + sum_j v_ij x_j) / (1 - b)

    where v_ij is the remainder of W_ij after a weight b in total is removed from the farthest rows; one row may lose a part of
    its weight. An agent that receives less than b keeps x_i. On the complete graph with W_ij = 1/A and b = k/A the result is
    the mean of the A - k nearest rows, as in the paper.

    Parameters
    ----------
    solver : Solver
        A solver for doubly stochastic matrices.
    byzantine_weight : float
        Tolerated weight b of Byzantine agents among each agent's neighbours. The paper's theory covers
        complete graphs and b below a fifth.
    before : PreAggregation, optional
        Preparation of the messages: :class:`NNM` or :class:`Bucketing`.

    References
    ----------
    Farhadkhani, Guerraoui, Gupta, Hoang, Pinot, Stephan, "Robust collaborative learning with linear gradient overhead", ICML
    2023, section 3; on sparse graphs, without the division: Gaucher, Dieuleveut, Hendrikx, "Unified breakdown analysis for
    Byzantine robust gossip", ICML 2025.

    Examples
    --------
    >>> from consensus.solvers import GradientTracking
    >>> from consensus.robust import NNA
    >>> NNA(GradientTracking(0.1), byzantine_weight=0.2).byzantine_weight
    0.2
    """

    def aggregate(self, messages: Messages) -> np.ndarray:
        return nearest(messages, self.byzantine_weight)


def nearest(messages: Messages, dropped: float) -> np.ndarray:
    """Return the mean of each agent's own row and the nearest rows, after the farthest weight is dropped: (agents, P)."""
    relative = Differences.of(messages)
    kept = np.clip(relative.farther + messages.weights - dropped, 0, messages.weights)
    return bare(messages.own + messages.total(relative.differences, kept) / (1 - dropped))
