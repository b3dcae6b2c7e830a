"""Groups of worker processes, which end together, and groups that stay for one run after another."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import spawn
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Lock
from typing import Any

from consensus._arrays.files import interrupted_later
from consensus.workers.shared_memory import enough_files, send

_ENDING = 1.0  # seconds that workers have to end by themselves
_SPAWNING = threading.Lock()


@contextmanager
def process_group(
    work: Callable[[Any, Connection], None], tasks: Sequence[Any], stop: Callable[[Sequence[Connection]], None]
) -> Iterator[tuple[list[BaseProcess], list[Connection]]]:
    """Yield processes that do ``work(task, pipe)``, one for each task, and their pipes; in the end none is left.

    They are started afresh, without running the user's script again: ``work`` and the tasks are pickled. ``stop`` is called
    with the parent's ends of the pipes, to end the workers. Those that take more than a second are killed.
    """
    check_may_start()
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = []
    pipes: list[Connection] = []
    theirs: list[Connection] = []
    try:
        with _script_not_rerun(), enough_files():
            for task in tasks:
                ours, its = context.Pipe()
                pipes.append(ours)
                theirs.append(its)
                processes.append(context.Process(target=work, args=(task, its), daemon=True))
                processes[-1].start()
                its.close()  # so that the pipe ends with the worker
        yield processes, pipes
    finally:
        stop(pipes)
        deadline = time.monotonic() + _ENDING
        for process in processes:
            if process.pid is None:  # not started: an earlier one could not be, or ctrl-C
                continue
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in (*pipes, *theirs):
            pipe.close()


def check_may_start() -> None:
    """Raise ``RuntimeError`` in a process that may start no others."""
    if multiprocessing.current_process().daemon:
        raise RuntimeError(
            "a daemonic process, such as a worker of multiprocessing.Pool, cannot start worker processes: use "
            "concurrent.futures.ProcessPoolExecutor in place of the Pool, or stay in one process, as engine='stacked' does"
        )


@contextmanager
def _script_not_rerun() -> Iterator[None]:
    """Let this thread start processes that do not import the user's script, which is not needed and may lack a main guard.

    Other threads may start processes of their own meanwhile.
    """
    thread = threading.get_ident()
    with _SPAWNING:
        prepare = spawn.get_preparation_data

        def prepared(name: str) -> dict[str, Any]:
            data: dict[str, Any] = prepare(name)
            if threading.get_ident() == thread:
                # The start method may be one of the pool that this process belongs to, such as joblib's.
                for key in ("init_main_from_name", "init_main_from_path", "start_method"):
                    data.pop(key, None)
            return data

        spawn.get_preparation_data = prepared
        try:
            yield
        finally:
            spawn.get_preparation_data = prepare


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
