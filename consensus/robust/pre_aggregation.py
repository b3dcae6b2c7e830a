"""The base class of pre-aggregations, which prepare the messages before a robust rule aggregates them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from consensus.communication import Messages

if TYPE_CHECKING:
    from jaxtyping import Int


class PreAggregation(ABC):
    """The argument ``before`` of a robust rule: it turns each agent's messages into other messages.

    Attributes
    ----------
    spread : int
        Factor by which the weight of Byzantine messages may grow. The rule that follows must tolerate this multiple.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.communication import Messages
    >>> from consensus.robust import NNA, PreAggregation
    >>> class Clipped(PreAggregation):
    ...     def __call__(self, messages, byzantine_weight, agents, round):
    ...         return messages._replace(rows=np.clip(messages.rows, -1, 1))
    >>> rows, arcs = np.array([[0.5], [9.0]]), (np.zeros(2, int), np.array([1, 2]), np.full(2, 0.25))
    >>> messages = Messages(np.zeros((1, 1)), np.array([0.5]), *arcs, rows, np.arange(2))
    >>> messages.mixed().tolist(), Clipped()(messages, 0.25, np.array([0]), 0).mixed().tolist()
    ([[2.375]], [[0.375]])
    >>> solver = NNA(consensus.solvers.DGD(0.1), byzantine_weight=0.2, before=Clipped())
    """

    spread: int = 1

    @abstractmethod
    def __call__(self, messages: Messages, byzantine_weight: float, agents: Int[np.ndarray, " agents"], round: int) -> Messages:
        """Return the messages that are aggregated in place of the received ones.

        Parameters
        ----------
        messages : Messages
            The received messages.
        byzantine_weight : float
            Tolerated weight b of Byzantine agents among an agent's neighbours.
        agents : ndarray (agents,)
            Numbers in the network of the receiving agents. Random numbers are keyed by them.
        round : int
            The round.

        Returns
        -------
        Messages
            The messages to aggregate.
        """
