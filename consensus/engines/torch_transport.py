"""Messages between ranks by the gloo of torch.distributed."""

from __future__ import annotations

import os
import queue
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from consensus.engines.transport import COLLECTED, ENDS, NOTES, LostRank, Pairs

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed import ProcessGroup, Work

_EVER = timedelta(days=365)  # a timeout of gloo's would break all its connections; ours names who is late
_MOMENT = 1e-3  # seconds
_NOTHING = -1  # where no note has arrived


class Messages:
    """Messages on their way: their ``works`` by rank, with the arrays that must live until then."""

    def __init__(self, works: list[tuple[int, Work]], arrays: list[Tensor]) -> None:
        self.works, self._arrays = works, arrays
        self.lost: int | None = None
        self.waiting = False
        self._over = threading.Lock()
        self._over.acquire()

    def wait(self) -> None:
        """Wait, for ever if need be, until all are sent and received, or the connection to a rank broke."""
        for rank, work in self.works:
            try:
                work.wait(_EVER)
            except RuntimeError:
                self.lost = rank
                break
        self._over.release()

    def over(self, seconds: float) -> bool:
        """Return whether :meth:`wait`, on another thread, ends within ``seconds``."""
        return self._over.acquire(timeout=seconds)


class TorchTransport:
    """The :class:`consensus.engines.transport.Transport` of the ranks of a process group of gloo's.

    A message of gloo is over when a thread has waited for it: one does so here. The thread that runs rounds waits for that
    one, and can look at its clock and obey signals meanwhile. A message only leaves when its receiver has asked for it. No
    thread may be inside gloo when Python ends, which is a crash: so nothing waits for notes, which need never arrive.

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

    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.me]

    def _begin(self, receives: Pairs, sends: Pairs, tag: int) -> Messages:
        works, kept = [], []
        for begin, pairs in ((self._dist.irecv, receives), (self._dist.isend, sends)):
            for rank, rows in pairs:
                kept.append(self._bytes(rows))
                try:
                    works.append((rank, begin(kept[-1], rank, self._group, tag)))
                except RuntimeError as error:
                    raise LostRank(rank) from error
        return Messages(works, kept)

    def _bytes(self, rows: np.ndarray) -> Any:  # noqa: ANN401  a tensor, of a package that may be missing
        """Return a tensor with the memory of a contiguous array; of one that cannot be written, with a copy."""
        flat = rows.reshape(-1).view(np.uint8)
        return self._tensor(flat if flat.flags.writeable else flat.copy())

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
