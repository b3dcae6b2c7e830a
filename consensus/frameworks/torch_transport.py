"""Messages between ranks by the gloo of torch.distributed."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from consensus.engines.transport import COLLECTED, ENDS, MIXED, NOTES, LostRank, Pairs
from consensus.frameworks.ahead import Ahead, Sizes

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Work

_EVER = timedelta(days=365)  # a timeout of gloo's would break all its connections; ours names who is late
_MOMENT = 1e-3  # seconds
_NOTHING = -1  # where no note has arrived


class Messages:
    """Messages on their way: their ``works`` by rank, the ``arrays`` that must live until then, and what is ``last`` called."""

    def __init__(self, works: list[tuple[int, Work]], arrays: list[np.ndarray], last: list[Callable[[], None]]) -> None:
        self.works, self._arrays, self.last = works, arrays, last
        self.lost: int | None = None
        self.waiting = False
        self._over = threading.Lock()
        self._over.acquire()

    def wait(self) -> None:
        """Wait, for ever if need be, until all are sent and received, or the connection to a rank broke; free the works."""
        work = None
        while self.works and self.lost is None:
            rank, work = self.works.pop(0)
            try:
                work.wait(_EVER)
            except RuntimeError:
                self.lost = rank
        del work
        self.works.clear()  # here: what gloo frees while Python ends, on a thread of its own, is a crash
        self._over.release()

    def over(self, seconds: float) -> bool:
        """Return whether :meth:`wait`, on another thread, ends within ``seconds``."""
        return self._over.acquire(timeout=seconds)


class TorchTransport:
    """The :class:`consensus.engines.transport.Transport` of the ranks of a process group of gloo's.

    A message of gloo is over when a thread has waited for it: one does so here. The thread that runs rounds waits for that
    one, and can look at its clock and obey signals meanwhile. A message leaves only when its receiver has asked for it: so
    messages are asked for :class:`Ahead`. No thread may be inside gloo when Python ends, which is a crash: so nothing waits
    for notes, which need never arrive.

    Parameters
    ----------
    group : torch.distributed.ProcessGroup
        The ranks.
    """

    engine = "Torch"
    absent = "A rank never comes if it uses another engine, or if its script ended before consensus.solve"

    def __init__(self, group: ProcessGroup) -> None:
        import torch
        import torch.distributed as dist

        self._tensor, self._dist, self._group = torch.from_numpy, dist, group
        self.me, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._queue, self._sent = _waited(), list[Messages]()
        kinds = [(kind, rank) for kind in (MIXED, COLLECTED) for rank in self._others()]
        self._coming = {(kind, rank): Ahead(kind, partial(self.receive, rank)) for kind, rank in kinds}
        self._going = {(kind, rank): Sizes(kind) for kind, rank in kinds}
        self._notes = {rank: self._listen(rank) for rank in self._others()}

    def exchange(self, kind: int, receives: Pairs, sends: Pairs) -> Messages:
        return self._begin(receives, sends, kind)

    def broadcast(self, rows: np.ndarray) -> Messages:
        if self.me:
            return self._begin([(0, rows)], [], COLLECTED)
        return self._begin([], [(rank, rows) for rank in self._others()], COLLECTED)

    def done(self, pending: Messages, polls: int) -> bool:
        if not pending.waiting:
            pending.waiting = True
            self._queue.put(pending)
        if not pending.over(_MOMENT):
            return False
        if pending.lost is not None:
            raise LostRank(pending.lost)
        for last in pending.last:
            last()
        return True

    def note(self, note: int) -> None:
        for rank in self._others():
            with suppress(LostRank):
                # Kept for ever, as it may be read late or never: no rank sends two of them in less than seconds.
                self._sent.append(self._begin([], [(rank, np.array([note], np.int8))], NOTES))

    def notes(self) -> list[tuple[int, int]]:
        arrived = []
        for rank in self._others():
            while (note := int(self._notes[rank][0][0])) != _NOTHING:
                arrived.append((rank, note))
                try:
                    self._notes[rank][1].wait(_EVER)  # no time at all, as it has arrived
                    self._notes[rank] = self._listen(rank)
                except RuntimeError:  # it was the last one: the connection has broken
                    self._notes[rank][0][0] = _NOTHING
        return arrived

    def abort(self, seconds: float) -> NoReturn:
        self.note(ENDS)
        time.sleep(seconds)
        os._exit(1)  # what started the ranks ends the others; if nothing did, they see the broken connection

    def send(self, rank: int, rows: np.ndarray, tag: int) -> Work:
        """Begin to send bytes, which must not change until it is over; raise ``LostRank`` if it cannot be."""
        return self._request(self._dist.isend, rank, rows, tag)

    def receive(self, rank: int, rows: np.ndarray, tag: int) -> Work:
        """Begin to receive bytes, which must live until it is over; raise ``LostRank`` if none can come any more."""
        return self._request(self._dist.irecv, rank, rows, tag)

    def wait(self, rank: int, work: Work) -> None:
        """Wait, for ever if need be, until a message to or from a rank is over; raise ``LostRank`` if it cannot be any more."""
        try:
            work.wait(_EVER)
        except RuntimeError as error:
            raise LostRank(rank) from error

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.me]

    def _begin(self, receives: Pairs, sends: Pairs, kind: int) -> Messages:
        works: list[tuple[int, Work]] = []
        kept: list[np.ndarray] = []
        last: list[Callable[[], None]] = []
        for rank, array in receives:
            rows, coming = array.reshape(-1).view(np.uint8), self._coming.get((kind, rank))
            work, over = coming.begin(rows) if coming else (self.receive(rank, rows, kind), None)
            works.append((rank, work))
            kept.append(rows)
            last += [over] if over else []
        for rank, array in sends:
            rows, going = array.reshape(-1).view(np.uint8), self._going.get((kind, rank))
            kept.append(rows if rows.flags.writeable else rows.copy())  # a tensor can be written
            tag = going.tag if going and going.fits(rows.size) else kind
            works.append((rank, self.send(rank, kept[-1], tag)))
        return Messages(works, kept, last)

    def _request(self, begin: Callable[..., Work], rank: int, rows: np.ndarray, tag: int) -> Work:
        try:
            return begin(self._tensor(rows), rank, self._group, tag)
        except RuntimeError as error:
            raise LostRank(rank) from error

    def _listen(self, rank: int) -> tuple[np.ndarray, Work]:
        """Ask a rank for its next note. Gloo writes it here, where it can be seen without waiting for it."""
        note = np.full(1, _NOTHING, np.int8)
        return note, self._dist.irecv(self._tensor(note), rank, self._group, NOTES)


def _waited() -> queue.SimpleQueue[Messages]:
    """Return a queue of messages for which a thread waits, one after the other."""
    messages: queue.SimpleQueue[Messages] = queue.SimpleQueue()

    def wait() -> None:
        while True:
            messages.get().wait()

    threading.Thread(target=wait, name="waits for messages", daemon=True).start()
    return messages
