"""Barrier at which the processes of a run wait for one another."""

import math
import os
from multiprocessing.synchronize import Lock

import numpy as np

from consensus.workers.shared_memory import SharedArray
from consensus.workers.waiting import Wait

_SPINS = 300  # polls of the counters before a waiting process offers its core to others: some 100 us


class Aborted(Exception):
    """Another process ended the run."""


class Barrier:
    """A barrier for so many processes, ``parties``: a counter each in shared memory, a short spin, then sleep.

    Unlike ``multiprocessing.Barrier``, with two system calls and several context switches a round, it lets processes of about
    the same pace meet within microseconds. Its lock is held around each change of a counter: it orders what was written to
    memory before, on every kind of processor. A process receives it when it is started, and not with a barrier that is sent to
    it later.
    """

    lock: Lock

    def __init__(self, parties: int) -> None:
        self.counters = SharedArray((parties,), np.int64)
        self.abort = SharedArray((1,), np.int64)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def arrive(self, party: int, count: int) -> None:
        """Record that ``party`` has arrived ``count`` times."""
        with self.lock:
            self.counters.array[party] = count

    def wait(self, count: int, parties: slice = slice(None), timeout: float | None = None, parent: int | None = None) -> None:
        """Wait until all ``parties`` have arrived ``count`` times.

        It raises ``Aborted`` if the run was ended, or the process ``parent`` has ended, and ``TimeoutError`` after ``timeout``
        seconds.
        """
        counters, abort = self.counters.array[parties], self.abort.array
        for _ in range(_SPINS):
            if counters.min() >= count:
                break
        else:
            wait = Wait()
            while counters.min() < count:
                if abort[0] or (parent is not None and os.getppid() != parent):
                    raise Aborted
                if wait.pause() > (timeout or math.inf):
                    raise TimeoutError
        if abort[0]:
            raise Aborted
        with self.lock:
            pass  # what the others wrote before they arrived is visible from here on
