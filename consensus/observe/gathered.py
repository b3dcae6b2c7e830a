"""What an engine and the observer tell each other at a due round."""

from typing import Any, NamedTuple

import numpy as np


class Gathered(NamedTuple):
    """A round of the whole network, as an engine reports it.

    Attributes
    ----------
    round : int
        Number of rounds done.
    w : ndarray (A, P)
        Iterates of all agents; of those of this process, if processes observe together.
    report : ndarray (A, columns) or None
        Numbers for the columns of the solver, if it has any.
    counts : dict
        Counts of this run, and the ``traffic`` (A,) of each agent, or with a server the ``bytes_busiest`` of a machine.
    seconds : float
        Seconds spent in rounds.
    """

    round: int
    w: np.ndarray
    report: np.ndarray | None
    counts: dict[str, Any]
    seconds: float


class Decision(NamedTuple):
    """The answer of the observer to an engine.

    Attributes
    ----------
    reason : str or None
        Reason to stop.
    save : bool
        Whether the engine passes the state of all agents to :meth:`Observer.save`.
    """

    reason: str | None
    save: bool
