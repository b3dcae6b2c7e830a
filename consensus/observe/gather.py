"""How an engine gathers blocks of agents for the observer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from consensus._files import Hold
from consensus.checkpoint import Checkpoint, write

if TYPE_CHECKING:
    from jaxtyping import Shaped

Result = TypeVar("Result")


class Gather(Protocol):
    """Collective operations of an engine whose processes observe together, each with its block of agents.

    All processes call each method at the same time, and all get the same result.
    """

    def rows(self, block: Shaped[np.ndarray, "agents ..."]) -> Shaped[np.ndarray, "all_agents ..."]:
        """Return the rows of all agents.

        Parameters
        ----------
        block : ndarray (agents, ...)
            Rows of the agents of this process.

        Returns
        -------
        ndarray (A, ...)
            Rows of all agents.
        """
        ...

    def total(self, counts: dict[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        """Return the counts of the network and the seconds of the slowest process.

        Parameters
        ----------
        counts : dict
            Counts of this process.
        seconds : float
            Seconds spent by this process in rounds.

        Returns
        -------
        tuple of dict and float
            Counts and seconds of the network.
        """
        ...

    def once(self, function: Callable[[], Result]) -> Result:
        """Return the result of a function that is called in one process only, the one that reports to the user.

        Parameters
        ----------
        function : callable
            Function without arguments.

        Returns
        -------
        object
            Its result.
        """
        ...

    def save(self, hold: Hold, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint of the run.

        Parameters
        ----------
        hold : Hold
            Its path, and whether another process of this run writes it.
        checkpoint : Checkpoint
            The rows in its fields are those of the agents of this process; everything else is that of the network.
        """
        ...


class Whole:
    """The :class:`Gather` of an engine that observes all agents in one process."""

    def rows(self, block: np.ndarray) -> np.ndarray:
        return block

    def total(self, counts: dict[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        return counts, seconds

    def once(self, function: Callable[[], Result]) -> Result:
        return function()

    def save(self, hold: Hold, checkpoint: Checkpoint) -> None:
        write(hold.path, checkpoint)
