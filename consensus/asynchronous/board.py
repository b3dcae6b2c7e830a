"""The newest messages and iterates of all agents, in memory that processes share without waiting for each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np

from consensus.workers.shared_memory import SharedArray


class Board:
    """Two copies of what each agent published last, written in turn: no reader waits, and none reads half of it.

    The writer announces number n, writes it into copy n mod 2, and publishes n. A reader that takes the published number n has
    read it whole unless number n + 2 was announced meanwhile: then it reads again. A writer that stops or dies in the middle
    leaves its last number in the other copy.

    Parameters
    ----------
    values : sequence of ndarray (agents, ...)
        What the agents publish at the start: the fields of their messages, and the iterates as the last one.
    places : int
        Rows for each agent: row k agents + i is one of agent i, and the first one is where it begins. Others take no memory
        until something is written there.

    Attributes
    ----------
    published : ndarray of int (agents,)
        The number of times that each agent has published, its wakes.
    lost : ndarray of int (agents,)
        The number of an agent's messages that were lost.
    along : ndarray of int, optional
        Messages along each arc, unless one goes along each at every wake of its source.
    stale : ndarray (agents,)
        The greatest age of what an agent read, in seconds; readers write it and the parent sets it back.
    """

    def __init__(self, values: Sequence[np.ndarray], places: int = 1) -> None:
        agents = len(values[0])
        rows, used = places * agents, (agents, agents) if places > 1 else None
        self._copies = [SharedArray((2, rows, *value.shape[1:]), value.dtype, used) for value in values]
        self._times = SharedArray((2, rows), np.float64)
        self._announced, self._numbers = SharedArray((rows,), np.int64), SharedArray((rows,), np.int64)
        self._stale = SharedArray((agents,), np.float64)
        for copies, value in zip(self._copies, values, strict=True):
            copies.array[0, :agents] = value
        self._times.array[0] = time.monotonic()

    @property
    def published(self) -> np.ndarray:
        return self._numbers.array

    @property
    def lost(self) -> np.ndarray:
        return np.zeros(len(self.stale), int)

    @property
    def along(self) -> np.ndarray | None:
        return None

    @property
    def stale(self) -> np.ndarray:
        return self._stale.array

    def publish(self, rows: np.ndarray, values: Sequence[np.ndarray]) -> None:
        """Publish the next number of some rows; no other process may do so meanwhile.

        Parameters
        ----------
        rows : ndarray of int
            The rows, those of the agents.
        values : sequence of ndarray (rows, ...)
            The fields of their messages, and their iterates.
        """
        self._numbers.array[rows] = self._written(rows, values)

    def _written(self, rows: np.ndarray, values: Sequence[np.ndarray]) -> np.ndarray:
        """Write what is to be published as the next numbers of rows; return these."""
        numbers: np.ndarray = self._numbers.array[rows] + 1
        self._announced.array[rows] = numbers
        _fence()
        for copies, value in zip(self._copies, values, strict=True):
            copies.array[numbers % 2, rows] = value
        self._times.array[numbers % 2, rows] = time.monotonic()
        _fence()
        return numbers

    def read(self, agents: np.ndarray, fields: slice) -> tuple[list[np.ndarray], np.ndarray]:
        """Return what agents published last.

        Parameters
        ----------
        agents : ndarray of int
            Agents, of any shape.
        fields : slice
            Which of the values.

        Returns
        -------
        values : list of ndarray
            The fields, copies, with the shape of ``agents`` first.
        times : ndarray
            When each was published, on the clock of ``time.monotonic``.
        """
        while True:
            numbers = self._numbers.array[agents]
            _fence()
            values = [copies.array[numbers % 2, agents] for copies in self._copies[fields]]
            times = self._times.array[numbers % 2, agents]
            _fence()
            if (self._announced.array[agents] <= numbers + 1).all():
                return values, times


def _fence() -> None:
    """Keep the order of what is written to memory, and read from it, as it is in the program."""
    with threading.Lock():
        pass
