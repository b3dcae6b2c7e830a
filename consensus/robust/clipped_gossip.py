"""ClippedGossip: differences from the own row, clipped to a mean distance."""

from dataclasses import dataclass

import numpy as np

from consensus.communication import Messages
from consensus.robust.base import SLACK, Differences, Robust, clipped


@dataclass(frozen=True)
class ClippedGossip(Robust):
    """Another solver that mixes by ClippedGossip: differences from the own row are clipped to a mean distance.

    Agent i has its own row x_i and receives rows x_j with weights W_ij:

        x_i+ = x_i + sum_j W_ij min(1, t_i / |x_j - x_i|) (x_j - x_i)        t_i^2 = (1/b) sum_j W_ij |x_j - x_i|^2

    The second sum is over the nearest rows: those such that rows of weight at least b are farther away. This is the paper's
    rule for practice; its theorem sums over the honest neighbours, which agents do not know. With b = 0 the result is W x.

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
    He, Karimireddy, Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", arXiv 2202.01545, 2022.

    Examples
    --------
    >>> from consensus.solvers import DGD
    >>> from consensus.robust import ClippedGossip
    >>> ClippedGossip(DGD(0.1), byzantine_weight=0.2).byzantine_weight
    0.2
    """

    def aggregate(self, messages: Messages) -> np.ndarray:
        relative, b = Differences.of(messages), self.byzantine_weight
        near = relative.farther >= b * (1 - SLACK)
        squares = np.where(near, messages.weights * relative.distances**2, 0)
        total = np.bincount(messages.receivers, squares, minlength=len(messages.own))
        return clipped(messages, relative, np.sqrt(total / b) if b else np.full(len(messages.own), np.inf))
