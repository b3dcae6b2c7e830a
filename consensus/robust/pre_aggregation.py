"""What an agent does with the messages that it received before it aggregates them."""

from abc import ABC, abstractmethod

import numpy as np

from consensus.communication.messages import Messages


class PreAggregation(ABC):
    """The argument ``before`` of a robust rule: messages in, messages out, for each agent by itself.

    Attributes
    ----------
    spread : int
        By how much the weight of what liars have touched may grow. The rule that follows tolerates ``spread`` times as much.
    """

    spread: int = 1

    @abstractmethod
    def __call__(self, heard: Messages, tolerated: float, agents: np.ndarray, round: int) -> Messages:
        """The messages that are aggregated instead of those that came.

        Parameters
        ----------
        heard : Messages
        tolerated : float
            b, the weight of liars among an agent's neighbours.
        agents : ndarray (agents,)
            The numbers in the network of the agents that ``heard`` is of: random numbers are keyed by them.
        round : int
        """
