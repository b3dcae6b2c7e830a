"""Blocks of agents on MPI ranks, of one machine or many."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from consensus import _checks
from consensus.engines.base import Engine
from consensus.engines.rank_engine import RankEngine
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


class MPI(RankEngine):
    """Run on MPI ranks, each with a block of consecutive agents; the same bits as :class:`Stacked` on one machine.

    Start the script itself under MPI, ``mpiexec -n 4 python script.py``: every rank runs it, and calls
    :func:`consensus.solve` with the same arguments. A rank may hold only its own agents' data: see :meth:`rows` and
    :func:`consensus.data.load_shards`. Needs mpi4py: ``pip install 'consensus-opt[mpi]'``.

    Ranks compare their arguments first: if they differ, or one rank rejects its own, every rank raises an error. An exception
    inside rounds ends the whole job at once, with that rank's traceback; the history so far is written beside the checkpoint,
    or else into the working directory. When a rank dies, and on ctrl-C, the other ranks write it: mpiexec sends them SIGTERM,
    and kills them a quarter of a second later (Open MPI). A rank inside a long compiled computation has no time to write; if
    all of them are, the history since the last checkpoint is lost. After some seconds a warning names the ranks that keep
    others waiting.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm, optional
        The ranks that run; by default all.
    cores : int
        Threads inside a rank, for example for the blocks of :class:`consensus.surrogates.Blocks`.
    strict : bool
        Whether to check in every exchange that each message runs along an edge of that round's graph (slow; for tests).
    timeout : float
        Seconds that a rank waits for the others, in :func:`consensus.solve` and in its rounds, before it aborts the job.
    asynchronous : bool
        Whether ranks wait for nobody: :func:`consensus.solve` then takes :class:`consensus.asynchronous.AsyncMPI`, for solvers
        without rounds, with the same communicator, cores and timeout.

    Raises
    ------
    ImportError
        If mpi4py is missing.
    ValueError
        If ``strict`` and ``asynchronous`` are both True: without rounds there are no exchanges to check.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.engines import MPI
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> engine = MPI(timeout=60.0)  # on one rank, as without mpiexec
    >>> result = consensus.solve(problem, topologies.ring(3), consensus.solvers.DGD(0.1), rounds=5, engine=engine)
    >>> alone = consensus.solve(problem, topologies.ring(3), consensus.solvers.DGD(0.1), rounds=5)
    >>> engine.root, engine.ranks.size, bool((result.w == alone.w).all())
    (True, 1, True)
    """

    def __init__(
        self,
        communicator: Comm | None = None,
        cores: int = 1,
        strict: bool = False,
        timeout: float = 600.0,
        asynchronous: bool = False,
    ) -> None:
        self.asynchronous = _checks.flag("asynchronous", asynchronous)
        if _checks.flag("strict", strict) and asynchronous:
            raise ValueError("strict checks the exchanges of rounds: leave it out with asynchronous=True")
        try:
            from mpi4py import MPI as mpi  # importing it starts MPI
        except ImportError as error:
            raise ImportError("the MPI engine needs mpi4py and an MPI: pip install 'consensus-opt[mpi]'") from error
        if communicator is not None:
            needed = ("Get_size", "Get_rank", "Isend", "Abort")
            _checks.offers("communicator", communicator, needed, "a communicator, such as mpi4py.MPI.COMM_WORLD")
        self.communicator = mpi.COMM_WORLD if communicator is None else communicator
        super().__init__(MPITransport(self.communicator), cores, strict, timeout)

    def resolved(self) -> Engine:
        if not self.asynchronous:
            return self
        from consensus.asynchronous import AsyncMPI

        return AsyncMPI(self.communicator, self.cores, self.timeout)
