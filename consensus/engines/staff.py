"""Worker processes that stay for one run after another."""

import multiprocessing
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Lock

from consensus._memory import send
from consensus.engines.crew import crew
from consensus.engines.worker import Task, work


class Staff:
    """Workers for one run at a time; they are started when a run first needs them, and stay until :meth:`end`.

    Attributes
    ----------
    lock : multiprocessing lock
        That of all workers.
    workers, pipes : list
        Their processes, and the parent's ends of the pipes to them.
    ready : bool
        Set by a run when all workers are ready for the next one. Otherwise they are ended with it.
    """

    lock: Lock

    def __init__(self) -> None:
        self.workers: list[BaseProcess] = []
        self.pipes: list[Connection] = []
        self.ready = False
        self._stack, self._in_use = ExitStack(), threading.Lock()

    @contextmanager
    def hired(self, count: int) -> Iterator["Staff"]:
        """At least ``count`` workers, for one run; others than these while they are at work for another one."""
        if not self._in_use.acquire(blocking=False):
            other = Staff()
            try:
                with other.hired(count):
                    yield other
            finally:
                other.end()
            return
        try:
            if len(self.workers) < count or not all(worker.is_alive() for worker in self.workers):
                self._start(count)
            self.ready = False
            yield self
        finally:
            if not self.ready:
                self.end()
            self._in_use.release()

    def give(self, tasks: Sequence[Task]) -> None:
        """Send each of the first workers its task; that one of them has died is seen where its reports are waited for."""
        for pipe, task in zip(self.pipes, tasks):
            with suppress(OSError):
                send(pipe, task)

    def end(self) -> None:
        """End all workers."""
        self.workers, self.pipes = [], []
        self._stack.close()

    def _start(self, count):
        self.end()
        with _interrupted_later():
            self.lock = multiprocessing.get_context("spawn").Lock()
        self.workers, self.pipes = self._stack.enter_context(crew(work, [self.lock] * count, _dismiss))


def _dismiss(pipes):
    for pipe in pipes:
        with suppress(OSError):
            send(pipe, None)


@contextmanager
def _interrupted_later():
    """Ctrl-C waits for the end of this block, or a semaphore that is made, but not yet registered, would be left behind."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:  # others are not interrupted
        yield
        return
    came = []
    signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
