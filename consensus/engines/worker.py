"""What runs in a worker process."""

import multiprocessing
import os
import signal
import traceback
import warnings
from dataclasses import replace
from types import FunctionType
from typing import NamedTuple

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from consensus._memory import SharedArray
from consensus.engines.gate import Aborted, Gate
from consensus.engines.network import Network
from consensus.engines.rounds import run_rounds
from consensus.errors import WorkerError
from consensus.observe.counts import NAMES, total
from consensus.solvers.state import flatten

SHARED = ("features", "targets", "weights", "indices")  # arrays of shards, which workers see in shared memory


class Desk(NamedTuple):
    """The memory over which workers and their parent speak; see :meth:`of` for what is in it."""

    blocks: list
    gate: Gate
    halves: tuple
    iterates: SharedArray
    report: SharedArray
    visits: SharedArray
    round: SharedArray
    counts: SharedArray
    seconds: SharedArray
    command: SharedArray

    @property
    def parent(self):
        """The parent's place at the gate, after the workers'."""
        return len(self.blocks)

    @classmethod
    def of(cls, lock, blocks, parameters, dtype, width, columns):
        """The desk of workers with ``blocks`` of agents, for ``width`` numbers mixed and ``columns`` reported an agent."""
        agents, workers = blocks[-1].stop, len(blocks)
        return cls(
            blocks=blocks,
            gate=Gate(workers + 1, lock),
            # Two halves, used in turn: who writes the one can be sure that nobody reads it any more.
            halves=tuple(SharedArray((width * agents,), dtype) for _ in range(2)),
            iterates=SharedArray((agents, parameters), dtype),
            report=SharedArray((agents, max(1, columns)), np.float64),
            visits=SharedArray((workers,), np.int64),  # reports to the parent, of each worker
            round=SharedArray((workers,), np.int64),
            counts=SharedArray((workers, len(NAMES)), np.int64),
            seconds=SharedArray((workers,), np.float64),
            command=SharedArray((3,), np.int64),  # the parent's answer: to which report, whether to stop, to send the state
        )

    def name(self, worker):
        rows = self.blocks[worker]
        return f"worker {worker} (agents {rows.start} to {rows.stop - 1})"

    def late(self, worker, timeout):
        """The error that ``worker`` kept others waiting for more than ``timeout`` seconds."""
        return WorkerError(
            f"{self.name(worker)} kept the others waiting for over {timeout:g} s in round {int(self.round.array[worker]) + 1}; "
            "raise Processes(timeout=...) if its rounds take that long, or go on from a checkpoint with solve(..., resume=path)"
        )

    def totals(self):
        """The network's counts, and the slowest worker's seconds."""
        counts = [dict(zip(NAMES, counts, strict=True)) for counts in self.counts.array.tolist()]
        return total(counts), float(self.seconds.array.max())


class Task(NamedTuple):
    """What a worker is told at its start: ``shared`` is the problem without its data, pickled, and the data."""

    desk: Desk
    shared: tuple
    part: bytes
    cores: int


class SharedNetwork(Network):
    """Mixes through shared memory: every worker writes its rows, waits for the others, and reads its neighbours'."""

    def __init__(self, schedule, rows, dtype, strict, desk, worker, timeout):
        super().__init__(schedule, rows, dtype, strict)
        self.desk, self.worker, self.timeout = desk, worker, timeout
        # Not os.getppid(): that is another's if the parent ended while this process was starting.
        self.meetings, self.parent = 0, multiprocessing.parent_process().pid

    def _all_rows(self, rows):
        flat, room = rows.reshape(len(rows), -1), self.desk.halves[0].array.size // self.agents
        parts = [self._meet([flat[:, k : k + room]])[0].copy() for k in range(0, flat.shape[1], room)]
        return np.concatenate(parts, axis=1).reshape(self.agents, *rows.shape[1:])

    def _gather(self, plan, blocks):
        # As many blocks at a time as a half holds. They are taken up one by one, so that a half is written to again only
        # after everyone has multiplied what was in it.
        room = self.desk.halves[0].array.size // self.agents
        while blocks:
            group, width = [], 0
            while blocks and (width := width + self._width(blocks[0])) <= room:
                group.append(blocks[0])
                blocks = blocks[1:]
            if not group:
                raise ValueError(f"a block to mix has {width} numbers an agent, workers share {room}: split it")
            yield from self._meet(group)

    def _width(self, block):
        """How many numbers of the problem's dtype take the room of a row of ``block``: packed rows are bytes."""
        return -(-block[0].nbytes // self.dtype.itemsize)

    def _meet(self, blocks):
        """The whole ``blocks``, after all workers have written their rows."""
        half = self.desk.halves[self.meetings % 2].array
        agents, start, wholes = self.agents, 0, []
        for block in blocks:
            end = start + agents * self._width(block)
            place = half[start:end].view(block.dtype)[: agents * block[0].size]
            whole = place.reshape(agents, *block.shape[1:])
            whole[self.rows] = block
            wholes.append(whole)
            start = end
        self.meetings += 1
        self.desk.gate.arrive(self.worker, self.meetings)
        workers = slice(0, self.desk.parent)
        try:
            self.desk.gate.wait(self.meetings, workers, self.timeout, self.parent)
        except TimeoutError:
            raise self.desk.late(int(self.desk.gate.counters.array[workers].argmin()), self.timeout) from None
        return wholes


def work(task, sender):
    """Run a worker's rounds; tell the parent what goes wrong, and what is warned of."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    desk = task.desk

    def pass_on(message, category, *_):
        sender.send_bytes(cloudpickle.dumps(("warning", (str(message), category))))

    warnings.showwarning = pass_on
    try:
        solver, schedule, rounds, due, worker, rows, begin, strict, timeout = cloudpickle.loads(task.part)
        problem = _problem(task.shared).restrict(rows)
        network = SharedNetwork(schedule, rows, problem.dtype, strict, desk, worker, timeout)
        report = _Reports(desk, sender, worker, rows, due, network.parent, solver)
        with threadpool_limits(task.cores, user_api="blas"):
            run_rounds(problem, network, solver, begin, rounds, report)
    except Aborted:
        pass
    except BaseException as error:
        sender.send_bytes(cloudpickle.dumps(("trouble", (_parts(error), "".join(traceback.format_exception(error))))))
    finally:
        sender.close()


def _parts(error):
    """What :func:`restored` makes the exception of again in another process; None if it cannot be sent."""
    # An exception is pickled as a call with its ``args``, which a constructor of its own need not take.
    own = isinstance(type(error).__init__, FunctionType)
    parts = (type(error), error.args, error.__dict__) if own else error
    try:
        restored(cloudpickle.loads(cloudpickle.dumps(parts)))
    except Exception:
        return None
    return parts


def restored(parts):
    """The exception that :func:`_parts` took apart."""
    if isinstance(parts, BaseException):
        return parts
    kind, args, attributes = parts
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class _Reports:
    """Called after every round: at due rounds puts iterates and counts on the desk and waits for the parent."""

    def __init__(self, desk, sender, worker, rows, due, parent, solver):
        self.desk, self.sender, self.worker, self.rows = desk, sender, worker, rows
        self.due, self.parent, self.solver, self.visit = due, parent, solver, 0

    def __call__(self, state, counts, seconds):
        desk, worker = self.desk, self.worker
        desk.round.array[worker] = state.round
        if os.getppid() != self.parent:  # a worker that need not wait for others sees it here
            raise Aborted
        if not self.due(state.round):
            return None
        self.visit += 1
        desk.iterates.array[self.rows] = state.w
        if self.solver.columns:
            desk.report.array[self.rows] = self.solver.report(state)
        desk.counts.array[worker] = [counts[name] for name in NAMES]
        desk.seconds.array[worker] = seconds
        with desk.gate.lock:
            desk.visits.array[worker] = self.visit
        desk.gate.wait(self.visit, slice(desk.parent, None), None, self.parent)
        _, last, save = desk.command.array
        if save:
            self.sender.send_bytes(cloudpickle.dumps(("state", flatten(state))))
        return "told to stop" if last else None


def _problem(shared):
    """Put the problem together again: views of the shared data."""
    pickled, arrays = shared
    problem = cloudpickle.loads(pickled)
    if arrays:
        *own, problem.weights = (array.array for array in arrays)
        problem.shards = replace(problem.shards, **dict(zip(SHARED, own, strict=True)))
    return problem
