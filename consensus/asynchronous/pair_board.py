"""Iterates of all agents in memory that processes share, in which two agents change at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from consensus.asynchronous.arcs import Arcs
from consensus.asynchronous.board import Board
from consensus.asynchronous.locks import Locks
from consensus.workers.shared_memory import SharedArray
from consensus.workers.waiting import Wait

_STOPPED = 1.0  # seconds after which the process that holds the lock of another's agent counts as stopped


class PairBoard(Board):
    """A board on which the process that holds the locks of two agents writes both.

    A lock is the system's, which takes it back from a process that dies. A process that stops keeps it: the neighbours of the
    agent pass it over, and the agent itself moves to another row of the board, with a lock of its own. When the stopped process
    goes on, it finds that the agent has moved, and leaves both agents as they are. Both are written by publishing two numbers
    next to each other: only a process that dies, or stops until an agent has moved, between these leaves one agent changed
    alone.

    Parameters
    ----------
    state : NamedTuple
        State of all agents at the start.
    fields : sequence of str
        The fields of the state that two agents change at once.
    arcs : Arcs
        All arcs; where one leads to an agent, another one leads back.
    workers : int
        Number of processes that write.

    Attributes
    ----------
    names : list of str
        The fields on the board: those that are given, and at last ``w``.
    """

    def __init__(self, state: Any, fields: Sequence[str], arcs: Arcs, workers: int) -> None:  # noqa: ANN401  # a NamedTuple
        self.names = [*(name for name in fields if name != "w"), "w"]
        super().__init__([getattr(state, name) for name in self.names], places=workers)
        agents = len(arcs.sources)
        self._row, self._wakes = SharedArray((agents,), np.int64), SharedArray((agents,), np.int64)
        self._row.array[:] = np.arange(agents)
        self._locks = Locks(SharedArray((workers * agents,), np.uint8))
        self._tries, self._met = (SharedArray(arcs.sources.shape, np.int64) for _ in range(2))
        self._used = arcs.sources >= 0
        self._back = np.lexsort((self._used.nonzero()[0], arcs.sources[self._used]))  # the arc i -> j of each arc j -> i

    @property
    def published(self) -> np.ndarray:
        return self._wakes.array

    @property
    def lost(self) -> np.ndarray:
        lost: np.ndarray = (self._tries.array - self._met.array).sum(axis=1)
        return lost

    @property
    def along(self) -> np.ndarray:
        """One message to the neighbour that an agent draws, and one back unless it was lost."""
        messages: np.ndarray = self._tries.array[self._used][self._back] + self._met.array[self._used]
        return messages

    def read(self, agents: np.ndarray, fields: slice) -> tuple[list[np.ndarray], np.ndarray]:
        return super().read(self._row.array[agents], fields)

    def hold(self, agents: Sequence[int], seconds: float) -> np.ndarray | None:
        """Take the locks of agents together; return their rows, or None if that takes more than so many seconds."""
        wait = Wait()
        while (rows := self._taken(agents)) is None:
            if wait.pause() > seconds:
                return None
        return rows

    def hold_own(self, agent: int) -> np.ndarray:
        """Take the lock of an agent, which its process alone may ask for like this; return its row."""
        rows = self.hold([agent], _STOPPED)
        while rows is None:
            for row in range(agent, len(self._locks.memory.array), len(self._row.array)):
                if self._locks.take(row):
                    self._move(agent, row)
                    rows = np.array([row])
                    break
        return rows

    def commit(self, agents: Sequence[int], rows: np.ndarray, values: Sequence[np.ndarray], place: int) -> bool:
        """Publish a wake of the first of ``agents``, and release its locks; return whether it counts.

        Parameters
        ----------
        agents : sequence of int
            The agent that wakes, and its partner unless they did not meet.
        rows : ndarray of int
            Their rows, as they were held.
        values : sequence of ndarray (agents, ...)
            Their fields.
        place : int
            Place of the partner among the agent's sources.

        Returns
        -------
        bool
            False if this process was stopped so long that an agent has moved: nothing is published.
        """
        numbers, agent = self._written(rows, values), agents[0]
        stays = bool((self._row.array[list(agents)] == rows).all())
        if stays:
            self._numbers.array[rows] = numbers
            self._wakes.array[agent] += 1
        self._tries.array[agent, place] += 1
        self._met.array[agent, place] += stays and len(agents) > 1
        self._release(rows.tolist())
        return stays

    def _taken(self, agents: Sequence[int]) -> np.ndarray | None:
        taken: dict[int, int] = {}
        for agent in sorted(agents):
            row = int(self._row.array[agent])
            if self._locks.take(row):
                taken[agent] = row
                if self._row.array[agent] == row:  # it has not moved meanwhile
                    continue
            self._release(taken.values())
            return None
        return np.array([taken[agent] for agent in agents])

    def _release(self, rows: Iterable[int]) -> None:
        for row in rows:
            self._locks.release(row)

    def _move(self, agent: int, row: int) -> None:
        if row != self._row.array[agent]:
            values, _ = self.read(np.array([agent]), slice(None))
            self.publish(np.array([row]), values)
            self._row.array[agent] = row
