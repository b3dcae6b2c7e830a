"""Messages between worker processes by pipes."""

from collections.abc import Mapping
from multiprocessing.connection import Connection

import numpy as np

from consensus.centralised.tensor.grid import Pairs


class Pipes:
    """The :class:`consensus.centralised.tensor.grid.Ranks` of a worker process.

    All workers serve their pipes in one order, and of two workers the first one sends first: the first pipe in that order that
    is not served yet has both of its workers at it, so that they never wait in a circle.

    Parameters
    ----------
    me, size : int
        This worker, and the number of workers.
    pipes : mapping of int to Connection
        To the other workers that are on a line with this one.
    """

    def __init__(self, me: int, size: int, pipes: Mapping[int, Connection]) -> None:
        self.me, self.size, self._pipes = me, size, pipes

    def exchange(self, receives: Pairs, sends: Pairs) -> None:
        """Receive arrays and send others, to and from each worker one at most."""
        coming, going = dict(receives), dict(sends)
        for other in sorted({*coming, *going}, key=lambda other: ((self.me + other) % self.size, min(self.me, other))):
            if self.me < other and other in going:
                self._send(other, going[other])
            if other in coming:
                self._pipes[other].recv_bytes_into(coming[other].reshape(-1).view(np.uint8).data)
            if self.me > other and other in going:
                self._send(other, going[other])

    def _send(self, other: int, array: np.ndarray) -> None:
        self._pipes[other].send_bytes(array.reshape(-1).view(np.uint8).data)
