"""The loop of a worker process whose agents wake without waiting for others."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, cast

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from consensus.asynchronous.arcs import Arcs
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.blocks import Block, Blocks
from consensus.asynchronous.board import Board
from consensus.asynchronous.mailbox import Mailbox
from consensus.asynchronous.pair_board import PairBoard
from consensus.asynchronous.partner import Partner
from consensus.asynchronous.tally import WORK
from consensus.engines.protocols import AnyState, Sendable
from consensus.engines.rounds import all_small
from consensus.errors import DivergenceError
from consensus.workers.exceptions import parts_of
from consensus.workers.shared_memory import SharedArray

_POLL = 1e-3


class Task(NamedTuple):
    """Work of one process: its agents' wakes, until all agents together have woken ``most`` times or ``stop`` is set.

    ``solver`` is pickled. ``ready`` says of each worker, and at last of the parent, whether it may begin; ``work``
    (workers, 5) has the counts of work.
    """

    worker: int
    rows: slice
    solver: bytes
    problem: Sendable
    start: np.ndarray
    arcs: Arcs
    board: Board
    most: int
    ready: SharedArray
    work: SharedArray
    stop: SharedArray
    parent: int


def work(task: Task, pipe: Connection) -> None:
    """Do a :class:`Task`; send an error, if there is one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    try:
        with threadpool_limits(1, user_api="blas"), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            _wake_until_done(task)
    except BaseException as error:
        pipe.send_bytes(cloudpickle.dumps((parts_of(error), "".join(traceback.format_exception(error)))))


def _wake_until_done(task: Task) -> None:
    solver: AsynchronousSolver = cloudpickle.loads(task.solver)
    board, rows, stop = task.board, task.rows, task.stop.array
    problem = task.problem.problem().restrict(rows)
    single = solver.pairs or getattr(solver, "batch", None) is not None
    blocks = Blocks(problem, task.arcs.block(rows), single)
    state, messages = solver.init(blocks.problem, task.arcs.block(rows), task.start[rows])
    state = state._make([np.array(value) for value in state])
    parts = list(blocks.of(range(problem.agents)))
    talks: list[Partner | Newest]
    if isinstance(board, PairBoard):
        late: set[int] = set()
        talks = [Partner(board, part, rows.start, type(messages), late) for part in parts]
    else:
        talks = [Newest(board, part, rows.start, messages._make) for part in parts]
    task.ready.array[task.worker] = 1
    while not stop[0] and task.ready.array.min() < 1 and os.getppid() == task.parent:
        time.sleep(_POLL)
    while not stop[0] and os.getppid() == task.parent:
        for part, talk in zip(parts, talks, strict=True):
            own = state._make([value[part.rows] for value in state])
            new, messages = solver.wake(part.problem, part.arcs, own, cast(Any, talk.mailbox(own)))
            if not all_small(new.w):
                raise DivergenceError(int(board.published[rows][part.rows].min()), solver)
            if talk.publish(messages, new):
                for field, value in zip(state, new, strict=True):
                    field[part.rows] = value
        counts = blocks.work()
        task.work.array[task.worker] = [counts[name] for name in WORK]
        if board.published.sum() >= task.most:
            return


class Newest:
    """The newest messages of the sources of a block of agents, and what the block publishes.

    Parameters
    ----------
    board : Board
        All agents.
    part : Block
        The block.
    first : int
        The number of this process' first agent.
    make : callable
        Makes messages of a list of their fields.
    """

    def __init__(self, board: Board, part: Block, first: int, make: Callable[..., AnyState]) -> None:
        self._board, self._make = board, make
        self._agents = np.arange(first + part.rows.start, first + part.rows.stop)
        self._sources, self._unused = np.maximum(part.arcs.sources, 0), part.arcs.sources < 0

    def mailbox(self, own: AnyState) -> Mailbox:
        """Return what is read when it is first asked for."""
        return Mailbox(self._read)

    def _read(self) -> AnyState:
        """Return what the sources published last, and keep the greatest age."""
        values, times = self._board.read(self._sources, slice(None, -1))
        ages = np.where(self._unused, 0.0, time.monotonic() - times).max(axis=1)
        self._board.stale[self._agents] = np.maximum(self._board.stale[self._agents], ages)
        return self._make(values)

    def publish(self, messages: AnyState, state: AnyState) -> bool:
        """Publish a wake; return True: it counts."""
        self._board.publish(self._agents, [*messages, state.w])
        return True
