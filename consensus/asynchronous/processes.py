"""Solvers without rounds on worker processes that do not wait for each other."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar, cast

import cloudpickle
import numpy as np

from consensus import _checks
from consensus._arrays.parallel import cores
from consensus.asynchronous.arcs import arcs_of
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.board import Board
from consensus.asynchronous.pair_board import PairBoard
from consensus.asynchronous.tally import WORK, Seen, Tally, check_newest, check_wakes
from consensus.asynchronous.waking import Task, work
from consensus.engines import Begin, Engine
from consensus.engines.protocols import Problem, Solver
from consensus.errors import WorkerError
from consensus.observe import Gathered, Observer
from consensus.workers.blocks import blocks_by_load
from consensus.workers.exceptions import restored
from consensus.workers.groups import process_group
from consensus.workers.shared_memory import SharedArray, check_system
from topologies import _names
from topologies.schedules import ScheduleLike

S = TypeVar("S", bound=Solver)
_POLL = 1e-3  # seconds between two looks at the workers


@dataclass(frozen=True)
class AsyncProcesses(Engine):
    """Run a solver without rounds on worker processes of this machine, with no barrier between them.

    Each worker wakes its agents again and again; they read what their neighbours published last, from memory that processes
    share. A slow or stopped worker holds nobody up. One that dies is named in a warning at the end: the others go on, its
    agents' last iterates stay in the result. The order of wakes is the machine's, so no two runs are equal.

    Where a wake is an event of two agents, as of :class:`ADPSGD`, a worker locks both to average them, not while it computes;
    the partner may belong to any worker, also to one that is slow, has stopped or died. A partner that cannot be had for 0.1 s,
    because a worker was stopped in the middle of averaging it, is passed over, which counts as a lost message.

    The history has the columns of :class:`Simulated`, on the wall clock: a row is recorded when all agents together have woken
    as often as so many rounds say, or at the next look, a millisecond later; rows that were passed by then are left out.

    Parameters
    ----------
    workers : int, optional
        Number of workers, at most one for each agent; by default one for each core.

    Raises
    ------
    NotImplementedError
        On Windows, which lacks the shared memory that Linux and macOS have.
    TypeError
        If the solver has rounds, or adds up messages.
    ValueError
        If a checkpoint is asked for: there is no round at which all agents could be saved.
    WorkerError
        If all workers died.

    Examples
    --------
    >>> from consensus.asynchronous import AsyncProcesses
    >>> AsyncProcesses(workers=2)
    AsyncProcesses(workers=2)
    """

    workers: int | None = None

    without_rounds = True

    def __post_init__(self) -> None:
        if self.workers is not None:
            _checks.count("workers", self.workers)
        check_system("AsyncProcesses", "use Simulated(), whose runs are in one process")

    def prepare(self, solver: S, problem: Problem, network: ScheduleLike) -> S:
        check_wakes("AsyncProcesses", solver, "processes")
        return super().prepare(solver, problem, network)

    def run(
        self, problem: Problem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        waking, start = cast(AsynchronousSolver, solver), begin.numbers["w"]
        check_newest("AsyncProcesses", waking, observer.saver is not None or begin.resumed)
        arcs = arcs_of(*waking.matrices(schedule), dtype=problem.dtype)
        everyone = cast(Any, problem.restrict(slice(0, problem.agents)))
        state, messages = waking.init(everyone, arcs, start)
        blocks = blocks_by_load(problem.load, min(self.workers or cores(), problem.agents))
        pairs = waking.pairs
        board = PairBoard(state, messages._fields, arcs, len(blocks)) if pairs else Board([*messages, state.w])
        ready, stop = SharedArray((len(blocks) + 1,), np.int64), SharedArray((1,), np.int64)
        done = SharedArray((len(blocks), len(WORK)), np.float64)
        most, pickled, data = rounds * problem.agents, cloudpickle.dumps(solver), problem.shared()
        rest = start, arcs, board, most, ready, done, stop, os.getpid()
        tasks = [Task(worker, rows, pickled, data, *rest) for worker, rows in enumerate(blocks)]

        def end(pipes: object) -> None:
            stop.array[0] = 1

        with process_group(work, tasks, end) as (processes, pipes):
            watch = _Watch(board, blocks, processes, pipes, done, Tally(arcs, messages), _names.of_run(problem, schedule))
            watch.until_ready(ready.array[:-1])
            return watch.observe(observer, rounds, ready.array[-1:])


class _Watch:
    """The parent's part: it looks at the board, and at who is alive."""

    def __init__(
        self,
        board: Board,
        blocks: list[slice],
        processes: list[BaseProcess],
        pipes: list[Connection],
        done: SharedArray,
        tally: Tally,
        labels: Sequence[Hashable] | None = None,
    ) -> None:
        self.board, self.blocks, self.processes, self.pipes = board, blocks, processes, pipes
        self.done, self.tally, self.labels = done, tally, labels
        self.began: float | None = None
        self.dead: dict[int, str] = {}

    def until_ready(self, ready: np.ndarray) -> None:
        while ready.min() < 1:
            self._look()
            if self.dead:
                raise WorkerError(next(iter(self.dead.values())))
            time.sleep(_POLL)

    def observe(self, observer: Observer, rounds: int, ready: np.ndarray) -> str | None:
        """Record due rounds until all are done, the start before any wakes; return the reason to stop early, or None."""
        agents = len(self.board.published)
        while True:
            round = min(int(self.board.published.sum()) // agents, rounds)
            observer.tick(max(observer.round, round))
            due = observer.due.passed(round)
            if due is not None:
                reason = observer.see(self._gathered(due)).reason
                if reason or due >= rounds:
                    self._name_the_dead()
                    return reason
                if not ready[0]:
                    self.began, ready[0] = time.perf_counter(), 1
            self._look()
            if len(self.dead) == len(self.processes):
                raise WorkerError(f"all workers died: {'; '.join(self.dead.values())}")
            time.sleep(_POLL)

    def _gathered(self, round: int) -> Gathered:
        everyone = np.arange(len(self.board.published))
        (w,), _ = self.board.read(everyone, slice(-1, None))
        board = self.board
        seen = Seen(w, board.published.copy(), board.stale.copy(), board.lost, board.along)
        board.stale[:] = 0
        seconds = 0.0 if self.began is None else time.perf_counter() - self.began
        return self.tally.gathered(round, seen, self.done.array.sum(axis=0), seconds)

    def _look(self) -> None:
        """Raise a worker's error; note who has died."""
        for worker, (process, pipe) in enumerate(zip(self.processes, self.pipes, strict=True)):
            if worker in self.dead:
                continue
            alive = process.is_alive()  # checked first: all that a dead worker sent has arrived
            try:
                message = pipe.recv_bytes() if pipe.poll() else None
            except (EOFError, OSError):
                message = None
            if message is not None:
                parts, text = cloudpickle.loads(message)
                raise WorkerError(f"{self._name(worker)}: {text}") if parts is None else restored(parts)
            if not alive and process.exitcode != 0:
                wakes = int(self.board.published[self.blocks[worker]].sum())
                self.dead[worker] = f"{self._name(worker)} died after {wakes} wakes (exit code {process.exitcode})"

    def _name(self, worker: int) -> str:
        rows = self.blocks[worker]
        return f"worker {worker} ({_names.block(rows, self.labels)})"

    def _name_the_dead(self) -> None:
        if self.dead:
            _checks.warn(f"{'; '.join(self.dead.values())}: the others went on, and the result has its agents' last iterates")
