"""Nearest-neighbour mixing."""

from dataclasses import dataclass

import numpy as np

from consensus._parallel import for_chunks
from consensus.communication.messages import Messages
from consensus.robust.nna import nearest
from consensus.robust.pre_aggregation import PreAggregation


@dataclass(frozen=True)
class NNM(PreAggregation):
    """Nearest-neighbour mixing: every message is replaced by the average of those nearest to it, then aggregated.

    Agent i has its own row x_i and receives rows x_j with weights W_ij. It averages around each of them, its own included:

        y_k = sum_j v_kj x_j / (1 - b) ,        k = i and all neighbours of i,

    where v_kj is what is left of W_ij when a weight b, the rule's ``tolerated``, is taken away, from the farthest
    ``|x_j - x_k|`` on. The rule then aggregates y in place of x. It uses nothing but what agent i received, and takes d^2
    distances of an agent with d neighbours.

    In the paper a server does so with n rows, f of them lies; with equal weights, b = f/n, agent i does it with the n = d + 1
    rows that it has. Around honest rows S the averages have less bias and variance together than the rows:

        mean_S |y_k - xbar_S|^2 <= 8 f / (n - f) mean_S |x_k - xbar_S|^2

    for every S of n - f rows with mean xbar_S, and whatever the others are. That is a gain where f < n / 9. For a server the
    paper concludes that a rule after it is optimally robust with different data, up to constants; for sparse graphs, and for
    rules centred on the agent's own row, we know of no such theorem.

    References
    ----------
    Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Fixing by mixing: a recipe for optimal Byzantine ML under
    heterogeneity", AISTATS 2023.

    Examples
    --------
    >>> from consensus.robust import CSPlus
    >>> from consensus.solvers import DGD
    >>> from consensus.robust import NNM
    >>> CSPlus(DGD(0.1), tolerated=0.1, before=NNM()).before
    NNM()
    """

    def __call__(self, heard: Messages, tolerated: float, agents: np.ndarray, round: int) -> Messages:
        received, around = len(heard.weights), _Around(heard)
        rows = np.empty((received, heard.own.shape[1]), heard.own.dtype)

        def chunk(arcs):
            rows[arcs] = nearest(around.messages(arcs), tolerated)

        # Differences to all that its receiver has, for each message: the largest arrays that there are.
        for_chunks(chunk, received, 3 * int(around.degrees.max(initial=1)) * heard.own[:1].nbytes)
        return heard._replace(own=nearest(heard, tolerated), rows=rows, sources=np.arange(received))


class _Around:
    """Each message seen as an agent that hears all the others of its receiver, and the receiver's own row."""

    def __init__(self, heard):
        self.heard = heard
        self.rows = np.concatenate([heard.rows, heard.own])
        self.degrees = np.bincount(heard.receivers, minlength=len(heard.own))
        self.first = np.searchsorted(heard.receivers, heard.receivers)  # of the arcs of an arc's receiver

    def messages(self, arcs):
        """What the messages of some arcs, a slice of them, hear."""
        heard, receivers = self.heard, self.heard.receivers[arcs]
        counts = self.degrees[receivers]
        centres = np.repeat(np.arange(len(receivers)), counts)
        place = np.arange(len(centres)) - np.repeat(counts.cumsum() - counts, counts)
        others = self.first[arcs][centres] + place
        itself = others == np.arange(len(heard.receivers))[arcs][centres]  # in whose place is the receiver's own row
        receiver = receivers[centres]
        return Messages(
            own=heard.rows[heard.sources[arcs]],
            own_weights=heard.weights[arcs],
            receivers=centres,
            senders=heard.senders[others],
            weights=np.where(itself, heard.own_weights[receiver], heard.weights[others]),
            rows=self.rows,
            sources=np.where(itself, len(heard.rows) + receiver, heard.sources[others]),
        )
