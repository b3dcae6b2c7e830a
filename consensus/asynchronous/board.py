"""The newest messages and iterates of all agents, in memory that processes share without waiting for each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np

from consensus.workers.shared_memory import SharedArray


class Board:
    """For each agent two copies of what it published last, written in turn: no reader waits, and none reads half of it.

    The writer announces number n, writes it into copy n mod 2, and publishes n. A reader that takes the published number n has
    read it whole unless number n + 2 was announced meanwhile: then it reads again. A writer that stops or dies in the middle
    leaves its last number in the other copy.

    Parameters
    ----------
    values : sequence of ndarray (agents, ...)
        What the agents publish at the start: the fields of their messages, and the iterates as the last one.

    Attributes
    ----------
    published : ndarray of int (agents,)
        The number of times that each agent has published, its wakes.
    stale : ndarray (agents,)
        The greatest age of what an agent read, in seconds; readers write it and the parent sets it back.
    """

    def __init__(self, values: Sequence[np.ndarray]) -> None:
        agents = len(values[0])
        self._copies = [SharedArray((2, *value.shape), value.dtype) for value in values]
        self._times = SharedArray((2, agents), np.float64)
        self._announced, self._published = SharedArray((agents,), np.int64), SharedArray((agents,), np.int64)
        self._stale = SharedArray((agents,), np.float64)
        for copies, value in zip(self._copies, values, strict=True):
            copies.array[0] = value
        self._times.array[0] = time.monotonic()

    @property
    def published(self) -> np.ndarray:
        return self._published.array

    @property
    def stale(self) -> np.ndarray:
        return self._stale.array

    def publish(self, rows: slice, values: Sequence[np.ndarray]) -> None:
        """Publish the next number of some agents; their process alone does so.

        Parameters
        ----------
        rows : slice
            The agents.
        values : sequence of ndarray (agents, ...)
            The fields of their messages, and their iterates.
        """
        agents = np.arange(rows.start, rows.stop)
        numbers = self.published[rows] + 1
        self._announced.array[rows] = numbers
        _fence()
        for copies, value in zip(self._copies, values, strict=True):
            copies.array[numbers % 2, agents] = value
        self._times.array[numbers % 2, agents] = time.monotonic()
        _fence()
        self.published[rows] = numbers

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
            numbers = self.published[agents]
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
