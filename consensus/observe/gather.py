"""How an engine puts blocks of agents together for the observer."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np


class Gather(Protocol):
    """What an engine offers whose processes observe together, each with its block of agents.

    All of them call each method at the same time, and all get the same.
    """

    def rows(self, block: np.ndarray) -> np.ndarray:
        """All agents' rows (A, ...), from the ``block`` (agents, ...) held here."""

    def total(self, counts: dict[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        """What the whole network has sent and computed, and the seconds of the slowest process."""

    def once(self, function: Callable[[], Any]) -> Any:
        """What ``function()`` gives in one of the processes, the one that reports to the user; it is not called elsewhere."""


class Whole:
    """The :class:`Gather` of an engine that observes in one process with all agents: there is nothing to put together."""

    def rows(self, block: np.ndarray) -> np.ndarray:
        return block

    def total(self, counts: dict[str, Any], seconds: float) -> tuple[dict[str, Any], float]:
        return counts, seconds

    def once(self, function: Callable[[], Any]) -> Any:
        return function()
