"""Messages between ranks that never wait for each other, one of a kind on its way at a time, and how MPI carries them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from consensus.engines.ranks import Ranks
from consensus.errors import WorkerError
from consensus.workers import waiting

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

MAIL, COUNT, ORDER, ANSWER = 1906, 1907, 1908, 1909  # tags
_NEXT, _LAST = 1, 2  # what stands behind the rows of a message: whether another one may follow
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
    """Carrier of the newest messages of agents between ranks: the part in which ranks and peers differ."""

    def departures(self, rank: int, like: np.ndarray) -> Departures:
        """Return where messages to a rank go, which have the dtype and length of ``like``."""
        ...

    def arrivals(self, rank: int, target: np.ndarray) -> Arrivals:
        """Return where messages from a rank come from; they are written to ``target``, which is contiguous."""
        ...

    def pause(self) -> None:
        """Wait for a moment, because nothing has arrived."""
        ...


class Request(Protocol):
    """Messages between a buffer and another rank, one after the other, as by a persistent request of MPI's."""

    def Start(self) -> None:
        """Begin to send what is in the buffer, or to receive into it."""
        ...

    def Test(self) -> bool:
        """Return whether nothing is on its way: what was sent has been taken, or what was awaited is in the buffer."""
        ...

    def Free(self) -> None:
        """Use it no more, after its last message."""
        ...


class RankPost(ABC):
    """The messages of ranks of which the newest of each kind counts; a launcher's carrier of them says how one travels.

    All ranks that send each other messages :meth:`end` together.
    """

    def __init__(self) -> None:
        self._outgoing, self._incoming = list[Outgoing](), list[Incoming]()

    @abstractmethod
    def sends(self, rank: int, kind: int, buffer: np.ndarray) -> Request:
        """Return what sends a buffer of bytes to a rank, where nothing is kept for a receiver that does not take it."""

    @abstractmethod
    def receives(self, rank: int, kind: int, buffer: np.ndarray) -> Request:
        """Return what receives bytes of a rank into a buffer of their size."""

    def departures(self, rank: int, like: np.ndarray, kind: int = MAIL) -> Outgoing:
        """Return where messages of a kind go to a rank: see :class:`Post`."""
        self._outgoing.append(Outgoing(rank, like, lambda buffer: self.sends(rank, kind, buffer)))
        return self._outgoing[-1]

    def arrivals(self, rank: int, target: np.ndarray, kind: int = MAIL) -> Incoming:
        """Return where messages of a kind come from a rank: see :class:`Post`."""
        self._incoming.append(Incoming(rank, target, lambda buffer: self.receives(rank, kind, buffer)))
        return self._incoming[-1]

    def pause(self) -> None:
        """Wait for a moment, because nothing has arrived."""
        waiting.Wait(yields=1).pause()  # where ranks share a core, others have their turn

    def end(self, ranks: Ranks) -> None:
        """Take all that is still on its way to this rank, together with all ranks, and close everything.

        Parameters
        ----------
        ranks : Ranks
            The ranks.

        Raises
        ------
        WorkerError
            If it takes longer than the ranks' ``timeout``.
        """
        wait = waiting.Wait()
        while True:
            for box in self._incoming:
                box.take()
            late = {box.rank for box in self._incoming if not box.over}
            late |= {box.rank for box in self._outgoing if not box.close()}
            if not late:
                break
            if wait.pause() > ranks.timeout:
                raise late_at_the_end(ranks, late)
        boxes: list[Outgoing | Incoming] = [*self._outgoing, *self._incoming]
        for closed in boxes:
            closed.release()


def late_at_the_end(ranks: Ranks, late: set[int]) -> WorkerError:
    """Return the error of ranks that do not end with the others."""
    names = ", ".join(ranks.names[rank] for rank in sorted(late)[:5])
    return WorkerError(f"at the end, {names} kept the others waiting for over {ranks.timeout:g} s")


class MPIPost(RankPost):
    """The messages of MPI ranks.

    Sends are synchronous, so that MPI keeps no copies for a slow receiver.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm
        The ranks.
    """

    def __init__(self, communicator: Comm) -> None:
        super().__init__()
        self._communicator = communicator

    def sends(self, rank: int, kind: int, buffer: np.ndarray) -> Request:
        return cast(Request, self._communicator.Ssend_init(buffer, rank, kind))

    def receives(self, rank: int, kind: int, buffer: np.ndarray) -> Request:
        return self._communicator.Recv_init(buffer, rank, kind)


class Outgoing:
    """The messages of one kind to one rank: the next one can be sent when the receiver has begun to take the last.

    Parameters
    ----------
    rank : int
        The receiver.
    like : ndarray
        Of the messages' dtype and length.
    request : callable
        ``request(buffer)`` sends a buffer of bytes.
    """

    def __init__(self, rank: int, like: np.ndarray, request: Callable[[np.ndarray], Request]) -> None:
        self.rank = rank
        buffer, self._rows, self._mark = _buffer(like)
        self._request = request(buffer)

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
        self._rows[...] = rows
        self._send(_NEXT)
        return True

    def close(self) -> bool:
        """Say that no more follows, as soon as no message is on its way; return whether that was taken, too."""
        if self._mark[0] != _LAST and self.free:
            self._send(_LAST)
        return self._mark[0] == _LAST and self.free

    def release(self) -> None:
        """Free the request, after :meth:`close`."""
        self._request.Free()

    def _send(self, mark: int) -> None:
        self._mark[0] = mark
        self._request.Start()


class Incoming:
    """The messages of one kind from one rank, written to ``target`` when :meth:`take` finds one.

    Parameters
    ----------
    rank : int
        The sender.
    target : ndarray
        Contiguous, of the message's dtype and length.
    request : callable
        ``request(buffer)`` receives a buffer of bytes.

    Attributes
    ----------
    over : bool
        Whether no more follow.
    """

    def __init__(self, rank: int, target: np.ndarray, request: Callable[[np.ndarray], Request]) -> None:
        self.rank, self.target, self.over = rank, target, False
        buffer, self._rows, self._mark = _buffer(target)
        self._request = request(buffer)
        self._request.Start()

    def take(self) -> bool:
        """Return whether a message has arrived; it is in the target then."""
        if self.over or not self._request.Test():
            return False
        self.over = self._mark[0] == _LAST
        if self.over:
            return False
        self.target[...] = self._rows
        self._request.Start()
        return True

    def release(self) -> None:
        """Free the request, when it is ``over``."""
        self._request.Free()


def _buffer(like: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a buffer of bytes for a message, its rows, which are as ``like``, and the mark behind them."""
    buffer = np.zeros(like.nbytes + 1, np.uint8)
    return buffer, buffer[:-1].view(like.dtype), buffer[-1:]


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
