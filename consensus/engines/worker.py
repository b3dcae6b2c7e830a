"""The main loop of a worker process."""

import gc
import multiprocessing
import os
import signal
import traceback
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Lock
from typing import Any, NamedTuple

import cloudpickle
from threadpoolctl import threadpool_limits

from consensus._parallel import keep_freed_memory
from consensus.communication.states import flatten
from consensus.engines.protocols import Sendable, Solver, State
from consensus.engines.rounds import run_rounds
from consensus.engines.shared import SharedNetwork, SharedState
from consensus.engines.states import Begin
from consensus.observe import Due
from consensus.observe.counts import NAMES
from consensus.workers.barrier import Aborted
from consensus.workers.exceptions import parts_of
from consensus.workers.shared_memory import receive
from topologies.schedules import ScheduleLike

DONE = b"done"  # sent by a worker that is ready for another task
_LOOK = 1.0  # seconds between two checks that the parent lives


class Part(NamedTuple):
    """One worker's part of a run: settings of :class:`SharedNetwork`, where its agents begin, and the rounds to report."""

    worker: int
    solver: Solver
    schedule: ScheduleLike
    begin: Begin
    rounds: int
    due: Due
    strict: bool
    timeout: float


class Task(NamedTuple):
    """A run, as it is sent to a worker; ``part`` is a pickled :class:`Part`, ``cores`` the number of threads."""

    shared: SharedState
    problem: Sendable
    part: bytes
    cores: int


def work(lock: Lock, pipe: Connection) -> None:
    """Do one :class:`Task` after another, until None comes or the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has been started by another process"
    keep_freed_memory()
    gc.freeze()  # collections after runs skip what has been imported
    with suppress(EOFError, OSError):  # the parent has ended
        while (task := _next(pipe, parent)) is not None:
            task.shared.barrier.lock = lock
            _run(task, pipe)
            del task
            gc.collect()  # the data's memory is not kept until the next run
            pipe.send_bytes(DONE)


def _next(pipe: Connection, parent: BaseProcess) -> Task | None:
    while not pipe.poll(_LOOK):  # other processes may hold the pipe open
        if os.getppid() != parent.pid:
            raise EOFError
    task: Task | None = receive(pipe)
    return task


def _run(task: Task, sender: Connection) -> None:
    """Run a worker's rounds; send errors and warnings to the parent."""
    shared = task.shared

    def pass_on(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        sender.send_bytes(cloudpickle.dumps(("warning", (str(message), category))))

    with warnings.catch_warnings():  # every run shows its warnings again
        warnings.showwarning = pass_on
        try:
            part: Part = cloudpickle.loads(task.part)
            worker, solver, schedule, begin, rounds, due, strict, timeout = part
            rows = shared.blocks[worker]
            problem = task.problem.problem().restrict(rows)
            network = SharedNetwork(schedule, rows, problem.dtype, strict, shared, worker, timeout)
            report = _Reports(network, sender, due, solver)
            with threadpool_limits(task.cores, user_api="blas"):
                run_rounds(problem, network, solver, begin, rounds, report, due)
        except Aborted:
            pass
        except BaseException as error:
            sender.send_bytes(cloudpickle.dumps(("error", (parts_of(error), "".join(traceback.format_exception(error))))))


class _Reports:
    """The ``report`` of :func:`run_rounds`: at due rounds it reports to the parent, and waits for the answer."""

    def __init__(self, network: SharedNetwork, sender: Connection, due: Due, solver: Solver) -> None:
        self.shared, self.worker, self.rows, self.parent = network.shared, network.worker, network.rows, network.parent
        self.sender, self.due, self.solver, self.reports = sender, due, solver, 0

    def __call__(self, state: State, counts: dict[str, Any], seconds: float) -> str | None:
        shared, worker = self.shared, self.worker
        shared.round.array[worker] = state.round
        if os.getppid() != self.parent:  # noticed here by a worker that need not wait for others
            raise Aborted
        if not self.due(state.round):
            return None
        self.reports += 1
        shared.iterates.array[self.rows] = state.w
        if self.solver.history_columns:
            shared.report.array[self.rows] = self.solver.report(state)
        shared.counts.array[worker] = [counts[name] for name in NAMES]
        shared.traffic.array[self.rows] = counts["traffic"]
        shared.seconds.array[worker] = seconds
        with shared.barrier.lock:
            shared.reported.array[worker] = self.reports
        shared.barrier.wait(self.reports, slice(shared.parent, None), None, self.parent)
        stop, save, self.due.next = shared.answer.array.tolist()
        if save:
            self.sender.send_bytes(cloudpickle.dumps(("state", flatten(state))))
        return "told to stop" if stop else None
