"""What runs in a worker process."""

import gc
import multiprocessing
import os
import signal
import traceback
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Lock
from typing import NamedTuple

import cloudpickle
from threadpoolctl import threadpool_limits

from consensus._parallel import keep_freed_memory
from consensus.communication.states import flatten
from consensus.engines.protocols import Sendable, Solver
from consensus.engines.rounds import run_rounds
from consensus.engines.shared import SharedNetwork, SharedState
from consensus.engines.states import Begin
from consensus.observe import Due
from consensus.observe.counts import NAMES
from consensus.workers.barrier import Aborted
from consensus.workers.exceptions import parts_of
from consensus.workers.shared_memory import receive
from topologies.schedules import ScheduleLike

DONE = b"done"  # what a worker says when it is ready for another task
_LOOK = 1.0  # seconds between two looks whether the parent still is


class Part(NamedTuple):
    """What one worker is to do: the settings of :class:`SharedNetwork`, where its agents begin, and when to report."""

    worker: int
    solver: Solver
    schedule: ScheduleLike
    begin: Begin
    rounds: int
    due: Due
    strict: bool
    timeout: float


class Task(NamedTuple):
    """What a worker is told of a run; its ``part`` is a pickled :class:`Part`."""

    shared: SharedState
    problem: Sendable
    part: bytes
    cores: int


def work(lock: Lock, pipe: Connection) -> None:
    """Do one :class:`Task` after another, until None comes instead or the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    parent = multiprocessing.parent_process()
    keep_freed_memory()
    gc.freeze()  # what has been imported is not looked through after every run
    with suppress(EOFError, OSError):  # the parent has ended
        while (task := _next(pipe, parent)) is not None:
            task.shared.barrier.lock = lock
            _run(task, pipe)
            del task
            gc.collect()  # the data's memory is not kept until the next run
            pipe.send_bytes(DONE)


def _next(pipe, parent):
    while not pipe.poll(_LOOK):  # other processes may hold the pipe open
        if os.getppid() != parent.pid:
            raise EOFError
    return receive(pipe)


def _run(task, sender):
    """Run a worker's rounds; tell the parent what goes wrong, and what is warned of."""
    shared = task.shared

    def pass_on(message, category, *_):
        sender.send_bytes(cloudpickle.dumps(("warning", (str(message), category))))

    with warnings.catch_warnings():  # in every run those come again that were shown before
        warnings.showwarning = pass_on
        try:
            worker, solver, schedule, begin, rounds, due, strict, timeout = cloudpickle.loads(task.part)
            rows = shared.blocks[worker]
            problem = task.problem.problem().restrict(rows)
            network = SharedNetwork(schedule, rows, problem.dtype, strict, shared, worker, timeout)
            report = _Reports(network, sender, due, solver)
            with threadpool_limits(task.cores, user_api="blas"):
                run_rounds(problem, network, solver, begin, rounds, report, due)
        except Aborted:
            pass
        except BaseException as error:
            sender.send_bytes(cloudpickle.dumps(("trouble", (parts_of(error), "".join(traceback.format_exception(error))))))


class _Reports:
    """Called after every round: at due rounds reports to the parent, and waits for its answer."""

    def __init__(self, network, sender, due, solver):
        self.shared, self.worker, self.rows, self.parent = network.shared, network.worker, network.rows, network.parent
        self.sender, self.due, self.solver, self.reports = sender, due, solver, 0

    def __call__(self, state, counts, seconds):
        shared, worker = self.shared, self.worker
        shared.round.array[worker] = state.round
        if os.getppid() != self.parent:  # a worker that need not wait for others sees it here
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
        stop, save = shared.answer.array
        if save:
            self.sender.send_bytes(cloudpickle.dumps(("state", flatten(state))))
        return "told to stop" if stop else None
