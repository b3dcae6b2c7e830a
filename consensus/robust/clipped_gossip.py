"""Self-centred clipping."""

from dataclasses import dataclass

import numpy as np

from consensus.communication.messages import Messages
from consensus.robust.base import SLACK, Differences, Robust, clipped


@dataclass(frozen=True)
class ClippedGossip(Robust):
    """Another solver with ClippedGossip wherever it mixes: what comes from far away is clipped to a mean distance.

    Agent i has its own row x_i and hears rows x_j with weights W_ij:

        x_i+ = x_i + sum_j W_ij min(1, t_i / |x_j - x_i|) (x_j - x_i)        t_i^2 = (1/b) sum_j W_ij |x_j - x_i|^2

    with the second sum over the nearest j, those from which on messages of a weight of at least b are farther away. (The paper
    sums over the honest neighbours, whom nobody knows; this is its rule for practice.) It is b = 0 that gives W x.

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
    He, Karimireddy, Jaggi, "Byzantine-robust decentralized learning via ClippedGossip", arXiv 2202.01545, 2022.

    Examples
    --------
    >>> from consensus.solvers import DGD
    >>> from consensus.robust import ClippedGossip
    >>> ClippedGossip(DGD(0.1), tolerated=0.2).tolerated
    0.2
    """

    def aggregate(self, heard: Messages) -> np.ndarray:
        messages = Differences.of(heard)
        near = messages.farther >= self.tolerated * (1 - SLACK)
        squares = np.where(near, heard.weights * messages.distances**2, 0)
        total = np.bincount(heard.receivers, squares, minlength=len(heard.own))
        levels = np.sqrt(total / self.tolerated) if self.tolerated else np.full(len(heard.own), np.inf)
        return clipped(heard, messages, levels)
