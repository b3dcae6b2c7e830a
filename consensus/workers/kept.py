"""Worker processes that stay for one run after another."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Lock
from typing import Any

from consensus._arrays.files import interrupted_later
from consensus.workers.pool import check_may_start, process_group
from consensus.workers.shared_memory import enough_files, send


class KeptWorkers:
    """Workers for one run at a time: started when a run first needs them, and kept until :meth:`stop`.

    ``work(lock, pipe)`` runs in each worker: it does one task after another until it receives None. ``lock`` is that of all
    workers, ``pipes`` are the parent's ends. A run sets ``ready`` if all are ready for the next one; otherwise they end with
    it.
    """

    lock: Lock

    def __init__(self, work: Callable[[Any, Connection], None]) -> None:
        self._work = work
        self.workers: list[BaseProcess] = []
        self.pipes: list[Connection] = []
        self.ready = False
        self._stack, self._in_use, self._process = ExitStack(), threading.Lock(), os.getpid()

    @contextmanager
    def at_least(self, count: int) -> Iterator["KeptWorkers"]:
        """Yield at least ``count`` workers; start new ones if the pool is in use, or belongs to another process."""
        if self._process != os.getpid() or not self._in_use.acquire(blocking=False):
            other = KeptWorkers(self._work)
            try:
                with other.at_least(count):
                    yield other
            finally:
                other.stop()
            return
        try:
            if len(self.workers) < count or not all(worker.is_alive() for worker in self.workers):
                self._start(count)
            self.ready = False
            yield self
        finally:
            if not self.ready:
                self.stop()
            self._in_use.release()

    def submit(self, tasks: Sequence[Any]) -> None:
        """Send each of the first workers its task; a dead worker is noticed where its reports are awaited."""
        for pipe, task in zip(self.pipes, tasks):
            with suppress(OSError):
                send(pipe, task)

    def stop(self) -> None:
        """End all workers."""
        self.workers, self.pipes = [], []
        self._stack.close()

    def _start(self, count: int) -> None:
        self.stop()
        check_may_start()
        # A semaphore that is made, but not yet registered, would never be removed.
        with interrupted_later(), enough_files():
            self.lock = multiprocessing.get_context("spawn").Lock()
        self.workers, self.pipes = self._stack.enter_context(process_group(self._work, [self.lock] * count, _stop))


def _stop(pipes: Sequence[Connection]) -> None:
    for pipe in pipes:
        with suppress(OSError):
            send(pipe, None)
