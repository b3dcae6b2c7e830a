"""Common parts of engines with real agents: checks of solvers, and the rows of the history."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from consensus.asynchronous.arcs import Arcs
from consensus.asynchronous.base import AsynchronousSolver
from consensus.engines.protocols import Solver
from consensus.observe import Gathered
from consensus.solvers.needs import needs_of

WORK = ("gradients", "samples", "solves", "iterations", "unfinished")


def check_wakes(engine: str, solver: Solver, instead: str) -> None:
    """Raise ``TypeError`` if a solver has rounds; name the engine that runs it."""
    if not needs_of(solver).wakes:
        name = type(solver).__name__
        raise TypeError(f"{engine} runs solvers without rounds, and {name} has rounds: give engine='{instead}'")


def check_newest(engine: str, solver: AsynchronousSolver, saves: bool) -> None:
    """Raise ``TypeError`` if the newest message of each agent is not enough for a solver, ``ValueError`` on checkpoints."""
    if solver.adds:
        name = type(solver).__name__
        raise TypeError(f"{engine} has the newest message of each agent alone; {name} needs more: use Simulated()")
    if saves:
        raise ValueError(f"{engine} writes and resumes no checkpoints: Simulated() does")


class Seen(NamedTuple):
    """Observed iterates (A, P) of all agents; wakes, ages of the oldest messages in seconds, and lost messages, each (A,).

    ``along`` has the messages along each arc, unless one goes along each at every wake of its source.
    """

    w: np.ndarray
    wakes: np.ndarray
    stale: np.ndarray
    lost: np.ndarray
    along: np.ndarray | None = None


class Tally:
    """Turns what was seen of the agents into a row of the history; ``messages`` are fields (agents, ...)."""

    def __init__(self, arcs: Arcs, messages: tuple[np.ndarray, ...]) -> None:
        self._targets, self._sources = (arcs.sources >= 0).nonzero()[0], arcs.sources[arcs.sources >= 0]
        self._size = sum(math.prod(value.shape[1:]) for value in messages)

    def gathered(self, round: int, seen: Seen, work: np.ndarray, seconds: float) -> Gathered:
        """Return what the observer takes; messages are counted whether they arrived or not.

        Parameters
        ----------
        round : int
            Round that is due.
        seen : Seen
            All agents.
        work : ndarray (5,)
            The counts of :data:`WORK`.
        seconds : float
            Since the first wakes.

        Returns
        -------
        Gathered
            The round.
        """
        w, wakes, stale, lost, along = seen
        size = self._size * w.itemsize
        along = wakes[self._sources] if along is None else along
        sent = int(along.sum())
        traffic = np.zeros(len(wakes), int)
        np.add.at(traffic, self._sources, along * size)
        np.add.at(traffic, self._targets, along * size)
        counts: dict[str, Any] = {"exchanges": round, "messages": sent, "floats": sent * self._size, "bytes": sent * size}
        counts |= dict(zip(WORK, work.tolist(), strict=True)) | {"traffic": traffic}
        report = np.column_stack([np.full(len(wakes), seconds), wakes, stale, lost])
        return Gathered(round, w, report, counts, seconds)
