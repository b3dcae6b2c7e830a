"""The messages of an edge of which the newest one counts: what is overtaken before it leaves is never sent."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

NEWEST = 1910  # their kind


class Packet(NamedTuple):
    """A part of such a message as it is sent, and what the audit says of it."""

    frame: bytes
    number: int
    round: int
    part: int
    size: int
    digest: bytes


class Newest:
    """Both ways of such messages on one edge, guarded by the lock of the edge's owner.

    ``size`` says how many bytes a message has that arrives; None lets none arrive.
    """

    def __init__(self) -> None:
        self.size: int | None = None
        self.number = -1  # of the last one that arrived
        self.payload: bytes | None = None  # unless it was taken
        self._parts: list[memoryview] = []  # of the one that is arriving
        self._arriving = -1
        self._last: list[Packet] = []  # the newest one
        self._leaves = False  # whether it is still to leave
        self._going: deque[Packet] = deque()  # of one that has begun to
        self._gone = -1, -1  # the number and part of the last that left

    def reset(self, size: int | None, number: int) -> None:
        """Begin a run, of whose messages the other end numbers none below or at ``number``; or end it, without a size."""
        self.size, self.number, self.payload, self._parts, self._arriving = size, max(number, self.number), None, [], -1

    # What leaves.

    def put(self, packets: list[Packet]) -> bool:
        """Let the newest message leave when it can; return whether the one before it has left."""
        left, self._last, self._leaves = not self._leaves, packets, True
        return left

    def again(self) -> None:
        """Begin a stream, on which the newest message is sent again, as it may have been lost."""
        self._going.clear()
        self._leaves = bool(self._last)

    @property
    def waits(self) -> bool:
        """True if there is something to send."""
        return self._leaves or bool(self._going)

    def next(self) -> tuple[Packet, bool]:
        """Return the next packet, and whether it leaves for the first time; all of a message leave one after another."""
        if not self._going:
            self._going.extend(self._last)
            self._leaves = False
        packet = self._going.popleft()
        first = (packet.number, packet.part) > self._gone
        self._gone = max(self._gone, (packet.number, packet.part))
        return packet, first

    # What arrives.

    def begin(self) -> None:
        """Take what comes from the other end as new, as its process has begun anew."""
        self.number, self._arriving, self._parts = -1, -1, []

    def arrived(self, number: int, part: int, whole: int, payload: memoryview) -> str | None:
        """Take a part of a message; return what is wrong with it, or None. One that is older than another is dropped."""
        if self.size is None:
            return None
        if whole != self.size:
            return f"a newest message of {whole} bytes where {self.size} are due"
        if number <= self.number:
            return None
        if part == 0:
            self._arriving, self._parts = number, []
        if number != self._arriving or part != len(self._parts):
            return None
        self._parts.append(payload)
        if sum(map(len, self._parts)) == whole:
            self.number, self.payload, self._parts, self._arriving = number, b"".join(self._parts), [], -1
        return None

    def take(self) -> bytes | None:
        """Return the newest message, None if it was taken before."""
        payload, self.payload = self.payload, None
        return payload
