"""Messages between ranks that never wait for each other, and how MPI carries them: one on its way at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from consensus.engines.ranks import Ranks
from consensus.errors import WorkerError
from consensus.workers import waiting

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Prequest

MAIL, COUNT, ORDER, ANSWER = 1906, 1907, 1908, 1909  # tags
_ROUND_TRIPS = 8


class Departures(Protocol):
    """Messages to one rank, of which the newest counts."""

    def offer(self, rows: np.ndarray) -> bool:
        """Send rows without waiting, or let the receiver have newer ones later; return False if a message is left out for it.

        Parameters
        ----------
        rows : ndarray
            The message.

        Returns
        -------
        bool
            Whether no message is lost by it.
        """
        ...


class Arrivals(Protocol):
    """Messages from one rank, of which the newest counts."""

    def take(self) -> bool:
        """Return whether a message has arrived since the last call; it is in its target then."""
        ...


class Post(Protocol):
    """Carrier of the newest messages of agents between ranks: the part in which MPI and peers differ."""

    def departures(self, rank: int, like: np.ndarray) -> Departures:
        """Return where messages to a rank go, which have the dtype and length of ``like``."""
        ...

    def arrivals(self, rank: int, target: np.ndarray) -> Arrivals:
        """Return where messages from a rank come from; they are written to ``target``, which is contiguous."""
        ...

    def pause(self) -> None:
        """Wait for a moment, because nothing has arrived."""
        ...


class MPIPost:
    """The mail of MPI ranks.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm
        The ranks.
    """

    def __init__(self, communicator: Comm) -> None:
        self._communicator = communicator

    def departures(self, rank: int, like: np.ndarray) -> Outgoing:
        return Outgoing(self._communicator, rank, MAIL, like)

    def arrivals(self, rank: int, target: np.ndarray) -> Incoming:
        return Incoming(self._communicator, rank, MAIL, target)

    def pause(self) -> None:
        waiting.Wait(yields=1).pause()  # where ranks share a core, others have their turn


class Outgoing:
    """The messages of one tag to one rank: the next one can be sent when the receiver has begun to take the last.

    The send is synchronous, so that MPI keeps no copies for a slow receiver.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm
        The ranks.
    rank, tag : int
        The receiver, and the tag.
    buffer : ndarray
        Contiguous; of the messages' dtype and length.
    """

    def __init__(self, communicator: Comm, rank: int, tag: int, buffer: np.ndarray) -> None:
        self.rank, self._buffer = rank, buffer
        self._request = cast("Prequest", communicator.Ssend_init(buffer.view(np.uint8), rank, tag))

    @property
    def free(self) -> bool:
        """True if no message is on its way."""
        return self._request.Test()

    def offer(self, rows: np.ndarray) -> bool:
        """Send rows if no message is on its way; return whether they are sent.

        Parameters
        ----------
        rows : ndarray
            What fits into the buffer.

        Returns
        -------
        bool
            Whether they are.
        """
        if not self.free:
            return False
        self._buffer[...] = rows
        self._request.Start()
        return True

    def close(self) -> None:
        """Free the request."""
        self._request.Free()


class Incoming:
    """The messages of one tag from one rank, written to ``target`` when :meth:`take` finds one.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm
        The ranks.
    rank, tag : int
        The sender, and the tag.
    target : ndarray
        Contiguous, of the message's dtype and length.
    """

    def __init__(self, communicator: Comm, rank: int, tag: int, target: np.ndarray) -> None:
        self.rank, self.target, self._buffer = rank, target, np.empty_like(target)
        self._request = communicator.Recv_init(self._buffer.view(np.uint8), rank, tag)
        self._request.Start()

    def take(self) -> bool:
        """Return whether a message has arrived; it is in the target then."""
        if not self._request.Test():
            return False
        self.target[...] = self._buffer
        self._request.Start()
        return True

    def close(self) -> None:
        """Receive no more."""
        self._request.Cancel()
        self._request.Wait()
        self._request.Free()


def end(ranks: Ranks, communicator: Comm, outgoing: Sequence[Outgoing], incoming: Sequence[Incoming]) -> None:
    """Take all that is still on its way to any rank, together with all ranks, and close everything.

    Parameters
    ----------
    ranks : Ranks
        The ranks.
    communicator : mpi4py.MPI.Comm
        Theirs.
    outgoing, incoming : sequence
        All of this rank.

    Raises
    ------
    WorkerError
        If it takes longer than the ranks' ``timeout``.
    """
    barrier, wait = None, waiting.Wait()
    while barrier is None or not barrier.Test():
        for box in incoming:
            box.take()
        if barrier is None and all(box.free for box in outgoing):
            barrier = communicator.Ibarrier()
        if wait.pause() > ranks.timeout:
            late = [ranks.names[box.rank] for box in outgoing if not box.free] or ["one of the others"]
            raise WorkerError(f"at the end, {late[0]} kept the others waiting for over {ranks.timeout:g} s")
    for sender in outgoing:
        sender.close()
    for receiver in incoming:
        receiver.close()


def seconds_ahead(ranks: Ranks) -> float:
    """Return by how much the first rank's clock, ``time.monotonic``, is ahead of this rank's; all ranks call it together.

    Each rank asks for the time in turn, several times; the quickest answer counts, as if it had been given halfway.
    """
    best, ahead = np.inf, 0.0
    empty, theirs = np.zeros(1), np.zeros(1)
    for rank in range(1, ranks.size):
        for _ in range(_ROUND_TRIPS):
            if ranks.me == 0:
                ranks.exchange([(rank, empty)], [])
                ranks.exchange([], [(rank, np.array([time.monotonic()]))])
            elif ranks.me == rank:
                sent = time.monotonic()
                ranks.exchange([], [(0, empty)])
                ranks.exchange([(0, theirs)], [])
                back = time.monotonic()
                if back - sent < best:
                    best, ahead = back - sent, float(theirs[0]) - (sent + back) / 2
    return ahead
