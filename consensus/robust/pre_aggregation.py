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
