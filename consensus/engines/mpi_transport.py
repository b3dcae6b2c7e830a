"""Messages between ranks by MPI."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from consensus.engines.transport import Pairs

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Request

_MIXED, _NOTES = 0, 1905  # tags: of rows to mix, and of notes between ranks that wait


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

    def exchange(self, receives: Pairs, sends: Pairs) -> list[Request]:
        communicator = self.communicator
        requests = [communicator.Irecv(rows, rank, _MIXED) for rank, rows in receives]
        requests += [communicator.Isend(rows, rank, _MIXED) for rank, rows in sends]
        return requests

    def allgather(self, rows: np.ndarray, counts: np.ndarray, whole: np.ndarray) -> list[Request]:
        return [self.communicator.Iallgatherv(rows, (whole, counts * int(np.prod(whole.shape[1:]))))]

    def broadcast(self, rows: np.ndarray) -> list[Request]:
        return [self.communicator.Ibcast(rows)]

    def done(self, pending: list[Request], polls: int) -> bool:
        done = type(pending[0]).Testall
        while not done(pending):  # no generator: most messages are there at the first looks, and rounds take microseconds
            polls -= 1
            if not polls:
                return False
        return True

    def note(self, note: int) -> None:
        self._sent = [(request, sent) for request, sent in self._sent if not request.Test()]
        sent = np.array([note], np.int8)  # kept until it is sent; the receiver need never read it
        others = (rank for rank in range(self.size) if rank != self.me)
        self._sent += [(self.communicator.Isend(sent, rank, _NOTES), sent) for rank in others]

    def notes(self) -> list[tuple[int, int]]:
        from mpi4py import MPI as mpi

        status, note, arrived = mpi.Status(), np.empty(1, np.int8), []
        while self.communicator.Iprobe(tag=_NOTES, status=status):
            self.communicator.Recv(note, status.source, _NOTES)
            arrived.append((status.source, int(note[0])))
        return arrived

    def abort(self, seconds: float) -> NoReturn:
        time.sleep(seconds)  # mpiexec may drop what it has not passed on when the job ends
        self.communicator.Abort(1)
