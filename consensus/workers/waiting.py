"""Waiting for other processes: short waits end within microseconds, long ones cost little and are warned of."""

import os
import time
import warnings

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
