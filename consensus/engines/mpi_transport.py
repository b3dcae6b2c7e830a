"""Messages between ranks by MPI."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from consensus.engines.transport import NOTES, LostRank, Pairs

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Request


class MPITransport:
    """The :class:`consensus.engines.transport.Transport` of the ranks of a communicator.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm
        The ranks.
    """

    engine = "MPI"
    absent = (
        "A rank never comes if it uses another engine, or raised an error outside of consensus.solve: "
        "mpiexec python -m mpi4py script.py ends the job then"
    )

    def __init__(self, communicator: Comm) -> None:
        self.communicator = communicator
        self.me, self.size = communicator.Get_rank(), communicator.Get_size()
        self._sent: list[tuple[Request, np.ndarray]] = []

    def exchange(self, kind: int, receives: Pairs, sends: Pairs) -> list[Request]:
        communicator = self.communicator
        requests = [communicator.Irecv(rows, rank, kind) for rank, rows in receives]
        requests += [communicator.Isend(rows, rank, kind) for rank, rows in sends]
        return requests

    def broadcast(self, rows: np.ndarray) -> list[Request]:
        return [self.communicator.Ibcast(rows)]

    def done(self, pending: list[Request], polls: int) -> bool:
        done = type(pending[0]).Testall
        try:
            while not done(pending):  # no generator: most messages are there at the first looks, and rounds take microseconds
                polls -= 1
                if not polls:
                    return False
        except RuntimeError as error:
            raise self._named(error) from error
        return True

    def note(self, note: int) -> None:
        self._sent = [(request, sent) for request, sent in self._sent if not _over(request)]
        sent = np.array([note], np.int8)  # kept until it is sent; the receiver need never read it
        others = (rank for rank in range(self.size) if rank != self.me)
        for rank in others:
            with suppress(RuntimeError):  # it has died
                self._sent.append((self.communicator.Isend(sent, rank, NOTES), sent))

    def notes(self) -> list[tuple[int, int]]:
        from mpi4py import MPI as mpi

        status, note, arrived = mpi.Status(), np.empty(1, np.int8), []
        try:
            while self.communicator.Iprobe(tag=NOTES, status=status):
                self.communicator.Recv(note, status.source, NOTES)
                arrived.append((status.source, int(note[0])))
        except RuntimeError as error:
            raise self._named(error) from error
        return arrived

    def abort(self, seconds: float) -> NoReturn:
        time.sleep(seconds)  # mpiexec may drop what it has not passed on when the job ends
        self.communicator.Abort(1)
        os._exit(1)  # MPICH's Abort may return; the process would be killed a moment later

    def _named(self, error: RuntimeError) -> Exception:
        """Return which rank has died, where MPI tolerates it (Open MPI's ``--with-ft ulfm``); else the ``error``."""
        try:
            self.communicator.Ack_failed()  # so that notes of the others can be looked for
            dead = self.communicator.Get_failed()
        except (NotImplementedError, RuntimeError):
            return error
        ranks = dead.Translate_ranks(list(range(dead.size)), self.communicator.group)
        return LostRank(min(ranks)) if len(ranks) else error


def _over(request: Request) -> bool:
    """Return whether a note was sent, or cannot be sent any more."""
    try:
        return bool(request.Test())
    except RuntimeError:
        return True
