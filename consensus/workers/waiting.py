"""Waiting for other processes: barriers that end with an error if one of them dies."""

import math
import os
import time
import warnings
from multiprocessing.synchronize import Lock

import numpy as np

from consensus.workers.shared_memory import SharedArray

PATIENCE = 5.0  # seconds beyond the usual after which others count as late
_YIELDS = 2000  # offers of the core to others before a wait sleeps: some ms
_FIRST, _LONGEST = 2e-5, 5e-4  # seconds of sleep; large messages come in steps, each of which it delays
_AWAKE = 0.5  # seconds between two polls at most, else this process was itself stopped

_offer = getattr(os, "sched_yield", lambda: time.sleep(0))


class Wait:
    """One wait: call :meth:`pause` between two polls of what is waited for. It yields the core ``yields`` times, then sleeps.

    ``seconds`` is how long it has taken, without the time in which this process itself was stopped.
    """

    def __init__(self, yields: int = _YIELDS) -> None:
        self.seconds, self._last, self._yields, self._sleep = 0.0, time.monotonic(), yields, _FIRST

    def pause(self) -> float:
        """Offer the core to others for a moment; return the seconds waited so far."""
        if self._yields:
            self._yields -= 1
            _offer()
        else:
            time.sleep(self._sleep)
            self._sleep = min(1.3 * self._sleep, _LONGEST)
        now = time.monotonic()
        self.seconds += min(now - self._last, _AWAKE)
        self._last = now
        return self.seconds


class Usual:
    """The usual length of waits: the longest so far, which decays by a tenth with every shorter one."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Add the seconds of a wait."""
        self.seconds = max(seconds, 0.9 * self.seconds)

    @property
    def late(self) -> float:
        """Seconds from which on a wait is longer than usual."""
        return self.seconds + PATIENCE


def warn_late(who: str, seconds: float, timeout: float) -> None:
    """Warn that ``who`` keeps the others waiting."""
    warnings.warn(
        f"{who} kept the others waiting for {seconds:.0f} s so far; the run goes on when it comes, or is given up after "
        f"{timeout:g} s",
        stacklevel=2,
    )


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
