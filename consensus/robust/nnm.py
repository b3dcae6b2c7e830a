"""Nearest-neighbour mixing."""

from dataclasses import dataclass

import numpy as np

from consensus._arrays.parallel import for_chunks
from consensus.communication import Messages
from consensus.robust.nna import nearest
from consensus.robust.pre_aggregation import PreAggregation


@dataclass(frozen=True)
class NNM(PreAggregation):
    """Nearest-neighbour mixing: each agent replaces every message by the mean of those nearest to it, then aggregates.

    Agent i has its own row x_i and receives rows x_j with weights W_ij. It averages around each of them, its own included:

        y_k = sum_j v_kj x_j / (1 - b) ,        k = i and all neighbours of i,

    where v_kj is the remainder of W_ij after a weight b, the rule's ``byzantine_weight``, is removed from the rows with the
    largest ``|x_j - x_k|``. The rule then aggregates y in place of x. An agent with d neighbours computes d^2 distances and
    needs no further messages. ``docs/robust.md`` states what is proved.

    References
    ----------
    Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Fixing by mixing: a recipe for optimal Byzantine ML under
    heterogeneity", AISTATS 2023.

    Examples
    --------
    >>> from consensus.robust import CSPlus
    >>> from consensus.solvers import DGD
    >>> from consensus.robust import NNM
    >>> CSPlus(DGD(0.1), byzantine_weight=0.1, before=NNM()).before
    NNM()
    """

    def __call__(self, messages: Messages, byzantine_weight: float, agents: np.ndarray, round: int) -> Messages:
        received, around = len(messages.weights), _Around(messages)
        rows = np.empty_like(messages.own, shape=(received, messages.own.shape[1]))

        def chunk(arcs: slice) -> None:
            rows[arcs] = nearest(around.messages(arcs), byzantine_weight)

        # The largest arrays hold, for each message, its differences from all rows of its receiver.
        for_chunks(chunk, received, 3 * int(around.degrees.max(initial=1)) * messages.own[:1].nbytes)
        return messages._replace(own=nearest(messages, byzantine_weight), rows=rows, sources=np.arange(received))


class _Around:
    """Each message as an agent that receives the other messages to its receiver, and the receiver's own row."""

    def __init__(self, received: Messages) -> None:
        self.received = received
        self.rows = np.concatenate([received.rows, received.own])
        self.degrees = np.bincount(received.receivers, minlength=len(received.own))
        self.first = np.searchsorted(received.receivers, received.receivers)  # of the arcs of an arc's receiver

    def messages(self, arcs: slice) -> Messages:
        """Return the messages to the agents that stand for some arcs."""
        received, receivers = self.received, self.received.receivers[arcs]
        counts = self.degrees[receivers]
        centres = np.repeat(np.arange(len(receivers)), counts)
        place = np.arange(len(centres)) - np.repeat(counts.cumsum() - counts, counts)
        others = self.first[arcs][centres] + place
        itself = others == np.arange(len(received.receivers))[arcs][centres]  # replaced by the receiver's own row
        receiver = receivers[centres]
        return received._replace(
            own=received.rows[received.sources[arcs]],
            own_weights=received.weights[arcs],
            receivers=centres,
            senders=received.senders[others],
            weights=np.where(itself, received.own_weights[receiver], received.weights[others]),
            rows=self.rows,
            sources=np.where(itself, len(received.rows) + receiver, received.sources[others]),
        )
