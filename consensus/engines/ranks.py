"""MPI ranks that wait for one another with a timeout, and name the ranks that are late."""

import pickle
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import numpy as np

from consensus.errors import WorkerError
from consensus.workers import waiting

if TYPE_CHECKING:
    from mpi4py.MPI import Comm, Request

T = TypeVar("T")
Pairs: TypeAlias = Sequence[tuple[int, np.ndarray]]  # a rank, and the rows that go to it or come from it
_SPINS = 200  # polls of a message before a waiting rank offers its core to others
_MIXED, _NOTES = 0, 1905  # tags: of rows to mix, and of notes between ranks that wait
_MOMENT = 1.0  # seconds for such notes to arrive
_FORWARDING = 0.2  # seconds for mpiexec to pass on the output, which it may drop when the job ends


class Ranks:
    """The communication of the ranks of a communicator, with a ``timeout``.

    A rank that waits longer than usual sends a note to all others, and another one when it goes on. So each waiting rank knows
    which others wait; all the rest are late. The first of the waiting ranks warns of them.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm
    timeout : float
        Seconds.

    Attributes
    ----------
    me, size : int
        This rank, and the number of ranks.
    place : callable
        ``place()`` is where this rank is, for messages.
    names : list of str
        The ranks' names.
    fatal : bool
        Whether a wait that takes too long aborts the job. Otherwise it is an error for the caller, who can add to it.
    """

    def __init__(self, communicator: "Comm", timeout: float) -> None:
        self.communicator, self.timeout = communicator, timeout
        self.me, self.size = communicator.Get_rank(), communicator.Get_size()
        self.names = [f"rank {rank}" for rank in range(self.size)]
        self.leave("in consensus.solve")
        self._usual = waiting.Usual()
        self._waiting: set[int] = set()
        self._sent: list[tuple[Request, np.ndarray]] = []

    def enter(self, place: Callable[[], str], names: list[str]) -> None:
        """Begin the rounds: ``place()`` is the present one, ``names`` are those of the ranks."""
        self.place, self.names, self.fatal = place, names, False

    def leave(self, where: str) -> None:
        """End the rounds: this rank is ``where`` from now on."""
        self.place, self.fatal = (lambda: where), self.size > 1

    def exchange(self, receives: Pairs, sends: Pairs) -> None:
        """Receive arrays and send others: pairs of a rank and an array, which may be longer than the message that comes."""
        requests = [self.communicator.Irecv(rows, rank, _MIXED) for rank, rows in receives]
        requests += [self.communicator.Isend(rows, rank, _MIXED) for rank, rows in sends]
        if requests:
            self.wait(requests)

    def allgather(self, value: object) -> list[Any]:
        """Return the values of all ranks, in order; they are pickled."""
        content, sizes = np.frombuffer(pickle.dumps(value), np.uint8), np.empty(self.size, np.int64)
        self.wait([self.communicator.Iallgather(np.array([content.size]), sizes)])
        whole = self.allgather_rows(content, sizes)
        return [pickle.loads(part.data) for part in np.split(whole, np.cumsum(sizes)[:-1])]

    def allgather_rows(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Return the rows of all ranks, in order, of which each has ``counts[rank]``."""
        rows = np.ascontiguousarray(rows)
        whole = np.empty((counts.sum(), *rows.shape[1:]), rows.dtype)
        self.wait([self.communicator.Iallgatherv(rows, (whole, counts * int(np.prod(rows.shape[1:]))))])
        return whole

    def broadcast(self, value: T | None) -> T:
        """Return rank 0's value on all ranks; it is pickled."""
        content = np.array(bytearray(pickle.dumps(value) if self.me == 0 else b""), np.uint8)
        size = np.array([content.size])
        self.wait([self.communicator.Ibcast(size)])
        if self.me:
            content = np.empty(size[0], np.uint8)
        self.wait([self.communicator.Ibcast(content)])
        received: T = pickle.loads(content.data)
        return received

    def wait(self, requests: "list[Request]") -> None:
        """Complete MPI requests.

        Raises
        ------
        WorkerError
            If they take more than ``timeout`` seconds: it names the ranks that are late.
        """
        done = type(requests[0]).Testall
        for _ in range(_SPINS):
            if done(requests):
                return
        wait, noted, warned = waiting.Wait(), False, False
        late, moment = min(self._usual.late, self.timeout / 2), min(_MOMENT, self.timeout / 4)
        try:
            while not done(requests):
                seconds = wait.pause()
                if seconds < late:
                    continue
                if not noted:
                    noted = True
                    self._send_notes(True)
                self._read_notes()
                first = self.me == min(self._waiting | {self.me})
                if first and not warned and seconds > late + moment:
                    warned = True
                    waiting.warn_late(self._late(), seconds, self.timeout)
                if seconds > self.timeout + (0 if first else 2 * moment):  # one of them says it
                    noted = False  # it does not go on: ranks with a note of it would warn in its place
                    self._give_up()
        finally:
            if noted:
                self._send_notes(False)
        self._usual.add(wait.seconds)

    def _give_up(self) -> NoReturn:
        error = WorkerError(
            f"{self._late()} kept the others waiting for over {self.timeout:g} s; raise MPI(timeout=...) if that is what it "
            "takes, or go on from a checkpoint with solve(..., resume=path). A rank never comes if it uses another engine, or "
            "raised an error outside of consensus.solve: mpiexec python -m mpi4py script.py ends the job then"
        )
        if not self.fatal:
            raise error
        self.abort(error, f"{self.names[self.me]} gave up waiting; the job is aborted")

    def abort(self, error: BaseException, said: str) -> NoReturn:
        """End the job on all ranks, after printing the traceback of ``error`` and ``said``."""
        print(*traceback.format_exception(error), said, sep="", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(_FORWARDING)
        self.communicator.Abort(1)

    def _late(self) -> str:
        """Return where this rank is, and which ranks do not wait."""
        late = [name for rank, name in enumerate(self.names) if rank != self.me and rank not in self._waiting]
        if not late:
            late = [
                f"{self.names[self.me]} and all others, which wait for each other as if they exchanged in different rounds,"
            ]
        more = f" and {len(late) - 5} more" if len(late) > 5 else ""
        return f"{self.place()}: {', '.join(late[:5])}{more}"

    def _send_notes(self, waiting: bool) -> None:
        self._sent = [(request, note) for request, note in self._sent if not request.Test()]
        note = np.array([waiting])  # kept until it is sent; the receiver need never read it
        others = (rank for rank in range(self.size) if rank != self.me)
        self._sent += [(self.communicator.Isend(note, rank, _NOTES), note) for rank in others]

    def _read_notes(self) -> None:
        from mpi4py import MPI as mpi

        status, note = mpi.Status(), np.empty(1, bool)
        while self.communicator.Iprobe(tag=_NOTES, status=status):
            self.communicator.Recv(note, status.source, _NOTES)
            (self._waiting.add if note[0] else self._waiting.discard)(status.source)
