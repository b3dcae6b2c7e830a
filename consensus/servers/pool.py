"""A pool of worker processes that answer requests."""

import pickle
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from consensus._arrays.parallel import keep_freed_memory
from consensus.errors import WorkerError
from consensus.workers.exceptions import parts_of, restored
from consensus.workers.groups import process_group
from consensus.workers.waiting import PATIENCE, warn_late

_STARTING = 120.0  # seconds that workers may take to start
_TIMEOUT = 600.0  # seconds after which a worker that does not answer is given up


class Worker(Protocol):
    """The protocol of objects that are sent to a worker process and answer requests there."""

    def begin(self) -> Callable[..., Any]:
        """Return the function that is called with each request."""


class WorkerDied(Exception):
    """A worker process ended before it answered."""

    def __init__(self, worker: int) -> None:
        super().__init__(worker)
        self.worker = worker


class Pool:
    """Workers that answer requests, each one at a time; made by :func:`pool`. Those that are ``busy`` have not answered yet."""

    def __init__(self, processes: Sequence[BaseProcess], pipes: Sequence[Connection], what: str) -> None:
        self.pids = [process.pid for process in processes]
        self.alive, self.busy = set(range(len(pipes))), set[int]()
        self._processes, self._pipes, self._what = processes, pipes, what
        self._warned_of: set[type[Warning]] = set()
        self._patience = _STARTING

    def submit(self, worker: int, *request: object) -> None:
        """Send a request; a dead worker is noticed where its answer is awaited."""
        self.busy.add(worker)
        with suppress(OSError):
            self._pipes[worker].send_bytes(pickle.dumps(request))

    def result(self) -> tuple[int, Any]:
        """Return the next worker that answers, and its answer; what was raised in the worker is raised here.

        If a busy worker ended instead, ``WorkerDied`` says so, and the others go on; if none answers for ten minutes, it raises
        a ``WorkerError``.
        """
        while True:
            worker = (self._ready(self._patience) or self._late())[0]
            try:
                kind, content = cloudpickle.loads(self._pipes[worker].recv_bytes())
            except (EOFError, OSError):
                self.busy.remove(worker)
                self.alive.remove(worker)
                raise WorkerDied(worker) from None
            if kind == "warning":
                text, category = content
                if category not in self._warned_of:  # once for all workers
                    warnings.warn(text, category, stacklevel=2)
                self._warned_of.add(category)
                continue
            self.busy.remove(worker)
            if kind == "error":
                parts, text = content
                error = WorkerError(text) if parts is None else restored(parts)
                error.add_note(f"in {self.name(worker)}\n{text}")
                raise error
            return worker, content

    def all(self, *request: object) -> list[Any]:
        """Return the answers of all workers to one request; ``WorkerError`` if one died."""
        for worker in range(len(self._pipes)):
            self.submit(worker, *request)
        results = self.results()
        return [results[worker] for worker in range(len(self._pipes))]

    def results(self) -> dict[int, Any]:
        """Return the answers of all busy workers; ``WorkerError`` if one died."""
        results = {}
        try:
            while self.busy:
                worker, result = self.result()
                results[worker] = result
        except WorkerDied as death:
            raise self.lost(death.worker) from None
        return results

    def lost(self, worker: int) -> WorkerError:
        """Return the error that a worker died."""
        self._processes[worker].join(1.0)
        return died(f"{self.name(worker)} died (exit code {self._processes[worker].exitcode})")

    def name(self, worker: int) -> str:
        """Return the worker's name in messages."""
        return f"{self._what} {worker} (process {self.pids[worker]})"

    def _ready(self, seconds: float) -> list[int]:
        """Return the busy workers that have answered or ended, after ``seconds`` at most."""
        pipes = {self._pipes[worker]: worker for worker in self.busy}
        ready = connection.wait(list(pipes), seconds)
        return [worker for pipe, worker in pipes.items() if pipe in ready]

    def _late(self) -> list[int]:
        """Wait longer than usual, with a warning; return the workers that are ready then."""
        waited, warned = self._patience, False
        while waited < _TIMEOUT:
            if ready := self._ready(10.0):
                return ready
            waited += 10.0
            if not warned:
                warned = True
                warn_late(", ".join(self.name(worker) for worker in self.busy), waited, _TIMEOUT)
        raise WorkerError(f"{self.name(min(self.busy))} gave no answer for {_TIMEOUT:g} s")


def died(what: str) -> WorkerError:
    """Return the error of a run that cannot go on; ``what`` says which worker died."""
    return WorkerError(f"{what}: the run cannot go on without it. If there is a checkpoint, go on with solve(..., resume=path)")


@contextmanager
def pool(workers: Sequence[Worker], what: str = "worker") -> Iterator[Pool]:
    """Yield the pool of a process for each of the ``workers``; afterwards none is left."""
    with process_group(serve, workers, _stop) as (processes, pipes):
        started = Pool(processes, pipes, what)
        started.busy |= started.alive
        started.results()  # they have begun
        started._patience = PATIENCE
        yield started


def serve(worker: Worker, pipe: Connection) -> None:
    """Answer requests in a worker process, until None comes or the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    keep_freed_memory()

    def send(kind: str, content: object) -> None:
        pipe.send_bytes(cloudpickle.dumps((kind, content)))

    def pass_on(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        send("warning", (str(message), category))

    warnings.showwarning = pass_on
    try:
        with threadpool_limits(1, user_api="blas"), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            answer = worker.begin()
            send("answer", None)
            while (request := _request(pipe)) is not None:
                send("answer", answer(*request))
    except BaseException as error:
        with suppress(OSError):  # the parent is gone
            send("error", (parts_of(error), "".join(traceback.format_exception(error))))


def _request(pipe: Connection) -> tuple[Any, ...] | None:
    """Return the next request; None if there will be no other."""
    try:
        request: tuple[Any, ...] | None = pickle.loads(pipe.recv_bytes())
        return request
    except (EOFError, OSError):  # the parent is gone
        return None


def _stop(pipes: Sequence[Connection]) -> None:
    for pipe in pipes:
        with suppress(OSError):
            pipe.send_bytes(pickle.dumps(None))
