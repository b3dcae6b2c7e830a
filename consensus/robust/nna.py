"""Nearest-neighbour averaging."""

from dataclasses import dataclass

import numpy as np

from consensus.communication.messages import Messages
from consensus.robust.base import Differences, Robust


@dataclass(frozen=True)
class NNA(Robust):
    """Another solver with nearest-neighbour averaging wherever it mixes: the farthest weight b of what is heard is dropped.

    Agent i has its own row x_i and hears rows x_j with weights W_ij:

        x_i+ = (W_ii x_i + sum_j v_ij x_j) / (1 - b)

    where v_ij is what is left of W_ij when a weight b is taken away, from the farthest |x_j - x_i| on; of one message that may
    be a part. Who hears less than b keeps x_i. On the complete graph with W_ij = 1/A and b = k/A it is the mean of the A - k
    rows that are nearest, as in the paper.

    Parameters
    ----------
    solver : Solver
        One for doubly stochastic matrices.
    tolerated : float
        b, the weight of liars that every agent tolerates. The paper's theory is of complete graphs and less than a fifth of
        liars.
    before : PreAggregation, optional
        What agents do with the messages first: :class:`NNM` or :class:`Bucketing`.

    References
    ----------
    Farhadkhani, Guerraoui, Gupta, Hoang, Pinot, Stephan, "Robust collaborative learning with linear gradient overhead", ICML
    2023, section 3; on sparse graphs, without the division: Gaucher, Dieuleveut, Hendrikx, "Unified breakdown analysis for
    Byzantine robust gossip", ICML 2025.

    Examples
    --------
    >>> from consensus.solvers import GradientTracking
    >>> from consensus.robust import NNA
    >>> NNA(GradientTracking(0.1), tolerated=0.2).tolerated
    0.2
    """

    def aggregate(self, heard: Messages) -> np.ndarray:
        return nearest(heard, self.tolerated)


def nearest(heard: Messages, dropped: float) -> np.ndarray:
    """The average around each agent's own row of what is left when the farthest weight ``dropped`` is: (agents, P)."""
    messages = Differences.of(heard)
    left = np.clip(messages.farther + heard.weights - dropped, 0, heard.weights)
    return heard.own + heard.total(messages.differences, left) / (1 - dropped)
