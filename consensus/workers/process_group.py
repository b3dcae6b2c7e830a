"""Worker processes of this machine: how they start, and how none of them is left."""

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_ENDING = 1.0  # seconds that workers have to end by themselves


@contextmanager
def process_group(
    work: Callable[[Any, Connection], None], tasks: Sequence[Any], stop: Callable[[Sequence[Connection]], None]
) -> Iterator[tuple[list[BaseProcess], list[Connection]]]:
    """Yield processes that do ``work(task, pipe)``, one for each task, and their pipes; in the end none is left.

    They are started afresh, without running the user's script again: ``work`` and the tasks are pickled. ``stop`` is called
    with the parent's ends of the pipes, to end the workers. Those that take more than a second are killed.
    """
    context = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = []
    pipes: list[Connection] = []
    theirs: list[Connection] = []
    try:
        with _main_not_rerun():
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


@contextmanager
def _main_not_rerun() -> Iterator[None]:
    """Start processes that do not import the user's script, which is not needed and may lack a main guard."""
    main = sys.modules["__main__"]
    kept: dict[str, object] = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(kept)
