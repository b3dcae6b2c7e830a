"""The messages of a slab to the next one and from the one before."""

from multiprocessing.connection import Connection

import numpy as np


class Line:
    """A slab's place in a chain of slabs: where states come ``from``, and where they go ``to``; None at the ends.

    Parameters
    ----------
    before, after : Connection or None
        To the slab before this one, and to the next one.
    odd : bool
        Whether the slab's number is odd: it then takes before it gives, so that neighbours never wait for each other in a row.

    Attributes
    ----------
    messages, numbers : int
        What it has given so far.
    """

    def __init__(self, before: Connection | None, after: Connection | None, odd: bool) -> None:
        self._before, self._after, self._odd = before, after, odd
        self.messages = self.numbers = 0

    def take(self, into: np.ndarray) -> None:
        """Write the state that the slab before gives to ``into``, a contiguous array; nothing at the start of the chain."""
        if self._before is not None:
            self._before.recv_bytes_into(into.reshape(-1).view(np.uint8).data)

    def give(self, state: np.ndarray) -> None:
        """Give a state to the next slab, if there is one."""
        if self._after is not None:
            self._after.send_bytes(state.data)
            self.messages += 1
            self.numbers += state.size

    def swap(self, state: np.ndarray, into: np.ndarray) -> None:
        """Give and take one state."""
        if self._odd:
            self.take(into)
        self.give(state)
        if not self._odd:
            self.take(into)
