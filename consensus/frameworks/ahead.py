"""Receives that are posted before their messages are due, where a message leaves only when its receiver has asked for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import numpy as np

from consensus.engines.transport import LostRank

Work = TypeVar("Work")
_AHEAD = 2  # messages: the request for one travels while the message before it does
_LEAST, _MOST = 1 << 12, 1 << 22  # bytes; larger messages would take much memory, and hardly gain


class Sizes:
    """The sizes of messages between two ranks, which both ends count alike, without a word to each other.

    A message no larger than an earlier one is one of those that were asked for ahead. Sizes are rounded up to powers of two, so
    that there are few of them.

    Parameters
    ----------
    kind : int
        The kind of the messages, from 0 to 4095.
    """

    def __init__(self, kind: int) -> None:
        self.kind, self.room = kind, 0

    @property
    def tag(self) -> int:
        """The tag of messages asked for ahead; no two sizes have the same."""
        return self.kind + (self.room.bit_length() << 12)

    def fits(self, size: int) -> bool:
        """Return whether a message of ``size`` bytes was asked for ahead; if it was not, others of that size will be."""
        if size <= self.room:
            return True
        if size <= _MOST:
            self.room = max(_LEAST, 1 << (size - 1).bit_length())
        return False


class Ahead(Generic[Work]):
    """Messages from one rank, requested before they are needed.

    Parameters
    ----------
    kind : int
        The kind of the messages.
    receive : callable
        ``receive(rows, tag)`` begins to receive a message that may be shorter than an array, and returns the work of it. It
        raises LostRank if nothing can come any more.
    """

    def __init__(self, kind: int, receive: Callable[[np.ndarray, int], Work]) -> None:
        self.sizes, self._receive = Sizes(kind), receive
        self._posted = deque[tuple[np.ndarray, Work]]()
        self._outgrown = list[tuple[np.ndarray, Work]]()  # gloo keeps their addresses, and cannot take a request back

    def begin(self, rows: np.ndarray) -> tuple[Work, Callable[[], None] | None]:
        """Begin to receive the bytes of a message.

        Returns
        -------
        work
            The work.
        over : callable or None
            What must be called when it is over, if anything.
        """
        tag = self.sizes.tag
        if not self.sizes.fits(rows.size):
            if self.sizes.tag != tag:  # a new size
                self._outgrown += self._posted
                self._posted.clear()
                for _ in range(_AHEAD):
                    self._post(np.empty(self.sizes.room, np.uint8))
            return self._receive(rows, self.sizes.kind), None
        if not self._posted:  # more messages at once than are asked for ahead
            return self._receive(rows, tag), None
        buffer, work = self._posted.popleft()

        def over() -> None:
            rows[:] = buffer[: rows.size]
            if self.sizes.tag == tag:
                self._post(buffer)

        return work, over

    def _post(self, buffer: np.ndarray) -> None:
        with suppress(LostRank):  # who is lost now may have sent all that is needed
            self._posted.append((buffer, self._receive(buffer, self.sizes.tag)))
