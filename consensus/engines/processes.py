"""Blocks of agents in worker processes, whose rows are in shared memory."""

import gc
import multiprocessing
import os
import signal
import time
import traceback
import warnings
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Lock
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from consensus import _checks
from consensus._arrays.parallel import cores, keep_freed_memory
from consensus.communication.block import BlockNetwork
from consensus.communication.plans import Plan
from consensus.communication.states import flatten, joined
from consensus.engines.base import Engine
from consensus.engines.protocols import Problem, Sendable, Solver, State
from consensus.engines.rounds import run_rounds
from consensus.engines.states import Begin
from consensus.errors import UnfinishedWarning, WorkerError
from consensus.observe import Due, Gathered, Observer
from consensus.observe.gather import NAMES, total
from consensus.workers.blocks import blocks_by_load
from consensus.workers.exceptions import parts_of, restored
from consensus.workers.groups import KeptWorkers
from consensus.workers.shared_memory import SharedArray, check_system, receive
from consensus.workers.waiting import Aborted, Barrier, Usual, Wait, warn_late
from topologies import _names
from topologies.schedules import ScheduleLike


class SharedState(NamedTuple):
    """The memory through which workers and their parent communicate: see :meth:`of`."""

    blocks: list[slice]
    barrier: Barrier
    halves: tuple[SharedArray, SharedArray]
    iterates: SharedArray
    report: SharedArray
    reported: SharedArray
    round: SharedArray
    counts: SharedArray
    traffic: SharedArray
    seconds: SharedArray
    answer: SharedArray
    labels: tuple[Hashable, ...] | None

    @property
    def parent(self) -> int:
        """The parent's place at the barrier, after the workers'."""
        return len(self.blocks)

    @classmethod
    def of(
        cls,
        blocks: list[slice],
        parameters: int,
        dtype: np.dtype,
        width: int,
        columns: int,
        labels: tuple[Hashable, ...] | None = None,
    ) -> "SharedState":
        """Return the memory for ``blocks`` of agents, for ``width`` numbers per agent to mix and ``columns`` to report.

        ``labels`` are the agents' names in messages.
        """
        agents, workers = blocks[-1].stop, len(blocks)
        return cls(
            blocks=blocks,
            barrier=Barrier(workers + 1),
            # Two halves, used in turn: when one is written again, all workers have finished reading it.
            halves=(SharedArray((width * agents,), dtype), SharedArray((width * agents,), dtype)),
            iterates=SharedArray((agents, parameters), dtype),
            report=SharedArray((agents, max(1, columns)), np.float64),
            reported=SharedArray((workers,), np.int64),  # how often each worker has reported to the parent
            round=SharedArray((workers,), np.int64),
            counts=SharedArray((workers, len(NAMES)), np.int64),
            traffic=SharedArray((agents,), np.int64),
            seconds=SharedArray((workers,), np.float64),
            # The parent's to the newest reports: whether to stop, whether to send the state, and the next round to record.
            answer=SharedArray((3,), np.int64),
            labels=labels,
        )

    def name(self, worker: int) -> str:
        """Return a worker's name in messages."""
        return f"worker {worker} ({_names.block(self.blocks[worker], self.labels)})"

    def late(self, worker: int, timeout: float) -> WorkerError:
        """Return the error that ``worker`` kept others waiting for more than ``timeout`` seconds."""
        return WorkerError(
            f"{self.name(worker)} kept the others waiting for over {timeout:g} s in round {int(self.round.array[worker]) + 1}; "
            "raise Processes(timeout=...) if its rounds take that long, or go on from a checkpoint with solve(..., resume=path)"
        )

    def totals(self) -> tuple[dict[str, Any], float]:
        """Return the network's counts and the slowest worker's seconds."""
        counts = [dict(zip(NAMES, counts, strict=True)) for counts in self.counts.array.tolist()]
        return total(counts) | {"traffic": self.traffic.array.copy()}, float(self.seconds.array.max())


class SharedNetwork(BlockNetwork):
    """A network in shared memory: every worker writes its rows, waits for the others, and reads its neighbours' rows.

    Beside what a :class:`consensus.communication.BlockNetwork` takes, ``worker`` is this worker's number, and ``timeout`` in
    seconds to wait for the others.
    """

    def __init__(
        self,
        schedule: ScheduleLike,
        rows: slice,
        dtype: np.dtype,
        strict: bool,
        shared: SharedState,
        worker: int,
        timeout: float,
    ) -> None:
        super().__init__(schedule, rows, dtype, strict)
        self.shared, self.worker, self.timeout = shared, worker, timeout
        # Not os.getppid(): that is another process if the parent ended while this one was starting.
        parent = multiprocessing.parent_process()
        assert parent is not None, "a worker has been started by another process"
        self.meetings, self.parent = 0, parent.pid

    def _gather(self, plan: Plan, blocks: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
        # As many blocks at a time as a half holds. They are yielded one by one, so that a half is written again only after all
        # workers have multiplied its blocks.
        room = self.shared.halves[0].array.size // self.agents
        while blocks:
            group: list[np.ndarray] = []
            width = 0
            while blocks and (width := width + self._width(blocks[0])) <= room:
                group.append(blocks[0])
                blocks = blocks[1:]
            if not group:
                raise ValueError(f"a block to mix has {width} numbers per agent, workers share {room}: split it")
            yield from self._meet(group)

    def _width(self, block: np.ndarray) -> int:
        """Return the size of a row of ``block``, as bytes if it is packed, in numbers of the problem's dtype."""
        return -(-int(block[0].nbytes) // self.dtype.itemsize)

    def _meet(self, blocks: list[np.ndarray]) -> list[np.ndarray]:
        """Return the ``blocks`` with all agents' rows, after all workers have written theirs."""
        half = self.shared.halves[self.meetings % 2].array
        agents, start, wholes = self.agents, 0, []
        for block in blocks:
            end = start + agents * self._width(block)
            place = half[start:end].view(block.dtype)[: agents * block[0].size]
            whole = place.reshape(agents, *block.shape[1:])
            whole[self.rows] = block
            wholes.append(whole)
            start = end
        self.meetings += 1
        barrier, workers = self.shared.barrier, slice(0, self.shared.parent)
        barrier.arrive(self.worker, self.meetings)
        try:
            barrier.wait(self.meetings, workers, self.timeout, self.parent)
        except TimeoutError:
            raise self.shared.late(int(barrier.counters.array[workers].argmin()), self.timeout) from None
        return wholes


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


_STARTING = 60.0  # seconds that workers may start one after another
_POLL = 0.05  # seconds between two polls of their pipes
_ENDING = 1.0  # seconds that workers have to leave a run


class Parent:
    """The observation of a run on workers.

    ``workers`` and ``receivers`` are the workers' processes and the pipes from them: as many as take part, or more. ``timeout``
    is in seconds that a worker may be behind the others.
    """

    def __init__(
        self,
        shared: SharedState,
        workers: Sequence[BaseProcess],
        receivers: Sequence[Connection],
        observer: Observer,
        rounds: int,
        timeout: float,
    ) -> None:
        self.shared, self.observer = shared, observer
        self.workers, self.receivers = workers[: shared.parent], receivers[: shared.parent]
        self._idle: set[int] = set()
        self.rounds, self.timeout = rounds, timeout
        self._usual, self._stall, self._warned = Usual(), 0.0, False
        self._done: np.ndarray | None = None
        self._warned_of: set[type[Warning]] = set()

    def observe(self) -> str | None:
        """Receive and answer the workers' reports of due rounds; return the reason to stop, None after all rounds."""
        shared, observer = self.shared, self.observer
        number = 0
        while True:
            number += 1
            self._wait(number, self.timeout if number > 1 else max(self.timeout, _STARTING))
            round, report = int(shared.round.array[0]), shared.report.array.copy()
            reason, save = observer.see(Gathered(round, shared.iterates.array.copy(), report, *shared.totals()))
            stop = reason is not None or round >= self.rounds
            shared.answer.array[:] = stop, save, observer.due.next
            shared.barrier.arrive(shared.parent, number)
            if save:
                observer.save(self._state())
            if stop:
                self._receive_last()
                return reason

    def ended(self) -> bool:
        """End the run on all workers; return whether all of them are ready for another within a second."""
        self.shared.barrier.abort.array[0] = 1
        deadline = time.monotonic() + _ENDING
        while late := self._late():
            ready = connection.wait(list(late), max(0.0, deadline - time.monotonic()))
            if not ready:
                return False
            try:
                messages = {receiver: receiver.recv_bytes() for receiver in late if receiver in ready}
            except (EOFError, OSError):
                return False
            self._idle |= {late[receiver] for receiver, message in messages.items() if message == DONE}
        return True

    def _late(self) -> dict[Connection, int]:
        """Return the pipes from workers that have not left the run, with their numbers."""
        return {receiver: worker for worker, receiver in enumerate(self.receivers) if worker not in self._idle}

    def _receive_last(self) -> None:
        """Pass on the warnings of the last rounds."""
        deadline, everyone = time.monotonic() + _ENDING, {worker: dict[str, Any]() for worker in range(len(self.workers))}
        while (late := self._late()) and time.monotonic() < deadline and all(process.is_alive() for process in self.workers):
            connection.wait(list(late), _POLL)
            self._poll(everyone)

    def _wait(self, number: int, timeout: float) -> None:
        """Wait for all workers' reports ``number``; raise the error of one, or one if a worker is ``timeout`` s behind."""
        shared, reported, wait = self.shared, self.shared.reported.array, Wait(yields=0)
        polled, self._done = 0.0, None
        first: float | None = None
        while reported.min() < number:
            if wait.pause() - polled > _POLL:
                self._warn_late(wait.seconds - polled, number)
                polled = wait.seconds
                self.observer.tick(max(self.observer.round, int(shared.round.array.min())))
                self._poll({})
                if first is None and reported.max() >= number:
                    first = polled
                if first is not None and polled - first > timeout:
                    raise shared.late(int(reported.argmin()), timeout)
        with shared.barrier.lock:
            pass

    def _warn_late(self, seconds: float, number: int) -> None:
        """Warn, once per stall, of workers that keep the others waiting longer than usual; ``seconds`` after the last poll."""
        shared = self.shared
        done = shared.barrier.counters.array[: shared.parent] + shared.reported.array  # exchanges and reports of each
        if self._done is None or not np.array_equal(done, self._done):
            self._usual.add(self._stall)
            self._done, self._stall, self._warned = done, 0.0, False
            return
        self._stall += seconds
        if number == 1 or self._stall < min(self._usual.late, self.timeout / 2):
            return
        stopped = [_stopped(process) for process in self.workers]
        behind = np.flatnonzero(done < done.max() if done.min() < done.max() else stopped)
        if not len(behind):  # all are computing
            return
        if self._stall > self.timeout + 1:  # a waiting worker, if any, notices it first
            raise shared.late(int(behind[0]), self.timeout)
        if not self._warned:
            self._warned = True
            names = _checks.some([f"{shared.name(worker)}{' (stopped)' * stopped[worker]}" for worker in behind.tolist()])
            warn_late(f"in round {int(shared.round.array[behind[0]]) + 1}: {names}", self._stall, self.timeout)

    def _state(self) -> dict[str, Any]:
        """Return all agents' numbers, joined from the workers' states."""
        states: dict[int, dict[str, Any]] = {}
        while len(states) < len(self.workers):
            connection.wait([receiver for worker, receiver in enumerate(self.receivers) if worker not in states], _POLL)
            self._poll(states)
        return joined([states[worker] for worker in range(len(self.workers))])

    def _poll(self, states: dict[int, dict[str, Any]]) -> None:
        """Add received states to ``states``, by worker; pass on errors and warnings."""
        for worker, (process, receiver) in enumerate(zip(self.workers, self.receivers, strict=True)):
            alive = process.is_alive()  # checked first: all that a dead worker sent has arrived
            kind: str | None = None
            content: Any = None
            with suppress(EOFError, OSError):  # it ended, perhaps in the middle of a message
                message = receiver.recv_bytes() if receiver.poll() else None
                if message == DONE:
                    self._idle.add(worker)
                elif message is not None:
                    kind, content = cloudpickle.loads(message)
            if kind == "state":
                states[worker] = content
            elif kind == "warning":
                self._warn(*content)
            elif kind == "error":
                raise self._error(worker, *content)
            elif not alive and worker not in states:
                raise WorkerError(
                    f"{self.shared.name(worker)} died in round {int(self.shared.round.array[worker]) + 1} (exit code "
                    f"{process.exitcode}). If there is a checkpoint, go on with solve(..., resume=path)"
                )

    def _warn(self, text: str, category: type[Warning]) -> None:
        """Warn as the worker did; of unfinished local problems only once for all workers."""
        if category is not UnfinishedWarning or category not in self._warned_of:
            warnings.warn(text, category, stacklevel=2)
        self._warned_of.add(category)

    def _error(self, worker: int, parts: object, text: str) -> BaseException:
        """Return a worker's exception, with its place and traceback as a note."""
        if parts is None:
            return WorkerError(f"{self.shared.name(worker)}: {text}")
        error = restored(parts)
        error.add_note(f"in {self.shared.name(worker)}, round {int(self.shared.round.array[worker]) + 1}\n{text}")
        return error


def _stopped(process: BaseProcess) -> bool:
    """Return whether a process was stopped by a signal, where the system has /proc."""
    try:
        return Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    except (OSError, IndexError):
        return False


@dataclass(frozen=True)
class Processes(Engine):
    """Run on worker processes of this machine; the same bits as :class:`Stacked`.

    Workers start afresh, without running the user's script again. Data and iterates are in shared memory: a round is the
    solver's step on each worker's agents and, for every exchange, one wait for the others. Nothing is pickled inside rounds.

    Starting a worker takes most of a second of CPU. In a ``with`` block workers start once and stay for the next
    :func:`consensus.solve`. If a run ends with an error, and its workers have not finished after a second, they are ended and
    the next run starts others.

    Parameters
    ----------
    workers : int, optional
        Number of workers, at most one for each agent; by default one for each core.
    cores : int
        Threads inside a worker, for example for the blocks of :class:`consensus.surrogates.Blocks`.
    timeout : float
        Seconds that a worker waits for the others before the run ends with an error. A warning names late workers before.
    strict : bool
        Whether to check in every exchange that each message runs along an edge of that round's graph (slow; for tests).

    Raises
    ------
    NotImplementedError
        On Windows, which lacks the shared memory that Linux and macOS have.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.engines import Processes
    >>> problem = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=4, parameters=2)
    >>> with Processes(2) as engine:
    ...     for step in (0.1, 0.2):
    ...         solver = consensus.solvers.DGD(step)
    ...         result = consensus.solve(problem, topologies.ring(4), solver, rounds=20, engine=engine)
    >>> result.reason
    'all 20 rounds done'
    """

    workers: int | None = None
    cores: int = 1
    timeout: float = 600.0
    strict: bool = False
    _kept: ClassVar[KeptWorkers | None] = None  # that of a with block

    def __post_init__(self) -> None:
        if self.workers is not None:
            _checks.count("workers", self.workers)
        _checks.count("cores", self.cores)
        _checks.number("timeout", self.timeout, above=0)
        check_system("Processes", "use engine='stacked', which computes on all cores of one process, or MPI()")

    def __enter__(self) -> Self:
        if self._kept is not None:
            raise RuntimeError(f"{self} keeps its workers already: enter its with block once")
        object.__setattr__(self, "_kept", KeptWorkers(work))
        return self

    def __exit__(self, *_: object) -> None:
        kept = self._kept
        object.__setattr__(self, "_kept", None)
        if kept is not None:
            kept.stop()

    def run(
        self, problem: Problem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        blocks = blocks_by_load(problem.load, min(self.workers or cores(), problem.agents))
        sizes = problem.parameters, problem.dtype, solver.width(problem), len(solver.history_columns)
        shared = SharedState.of(blocks, *sizes, _names.of_run(problem, schedule))
        shared.round.array[:] = begin.round
        parts = []
        for worker, rows in enumerate(blocks):
            part = Part(worker, solver, schedule, begin.block(rows), rounds, observer.due, self.strict, self.timeout)
            parts.append(cloudpickle.dumps(part))
        data = problem.shared()
        tasks = [Task(shared, data, part, self.cores) for part in parts]
        kept = KeptWorkers(work) if self._kept is None else self._kept
        try:
            with kept.at_least(len(blocks)) as group:
                shared.barrier.lock = group.lock
                parent = Parent(shared, group.workers, group.pipes, observer, rounds, self.timeout)
                try:
                    group.submit(tasks)
                    return parent.observe()
                finally:
                    group.ready = parent.ended()
        finally:
            if kept is not self._kept:
                kept.stop()
