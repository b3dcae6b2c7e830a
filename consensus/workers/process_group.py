"""Worker processes of this machine: how they start, and how none of them is left."""

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import spawn
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from consensus.workers.shared_memory import enough_files

_ENDING = 1.0  # seconds that workers have to end by themselves
_STARTING = threading.Lock()


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
    with _STARTING:
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
