"""An aggregation rule, written from docs/robust.md and the documentation of Messages alone."""

from dataclasses import dataclass

import numpy as np

from consensus.robust import Robust


@dataclass(frozen=True)
class TrimmedMean(Robust):
    """In every coordinate an agent drops the lowest weight b of the received entries, and the highest:

        x_i+ = x_i + sum_j v_ij (x_j - x_i)

    where v_ij is what remains of W_ij. An entry that is not finite counts as the agent's own.

    References
    ----------
    Yin, Chen, Ramchandran, Bartlett, "Byzantine-robust distributed learning: towards optimal statistical rates", ICML 2018,
    definition 2.
    """

    excluded = 2

    def aggregate(self, messages):
        receivers, differences = messages.receivers, messages.differences()
        place = np.arange(len(receivers)) - np.searchsorted(receivers, receivers)
        # Received entries on a grid (agents, neighbours, P), so that sums do not depend on the other agents of the block.
        shape = (len(messages.own), place.max(initial=0) + 1, messages.own.shape[1])
        entries, weights = np.zeros(shape), np.zeros(shape)
        entries[receivers, place] = np.where(np.isfinite(differences), differences, 0)
        weights[receivers, place] = messages.weights[:, None]
        order = np.argsort(entries, axis=1, kind="stable")
        entries, weights = (np.take_along_axis(grid, order, axis=1) for grid in (entries, weights))
        upto, b = weights.cumsum(axis=1), self.byzantine_weight
        kept = np.minimum(upto, upto[:, -1:] - b) - np.maximum(upto - weights, b)
        moved = (np.maximum(kept, 0) * entries).cumsum(axis=1)[:, -1]
        return (messages.own + moved).astype(messages.own.dtype)
