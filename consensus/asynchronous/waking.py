"""The loop of a worker process whose agents wake without waiting for others."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, cast

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from consensus.asynchronous.arcs import Arcs
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.blocks import Blocks
from consensus.asynchronous.board import Board
from consensus.asynchronous.mailbox import Mailbox
from consensus.asynchronous.tally import WORK
from consensus.engines.protocols import AnyState, Sendable
from consensus.engines.rounds import all_small
from consensus.errors import DivergenceError
from consensus.workers.exceptions import parts_of
from consensus.workers.shared_memory import SharedArray

_POLL = 1e-3


class Task(NamedTuple):
    """What a worker does: its agents' wakes until all agents together have woken ``most`` times, or ``stop`` is set.

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
    blocks = Blocks(problem, task.arcs.block(rows), single=getattr(solver, "batch", None) is not None)
    state, messages = solver.init(blocks.problem, task.arcs.block(rows), task.start[rows])
    state = state._make([np.array(value) for value in state])
    parts = list(blocks.of(range(problem.agents)))
    sources = [np.maximum(part.arcs.sources, 0) for part in parts]
    unused = [part.arcs.sources < 0 for part in parts]
    task.ready.array[task.worker] = 1
    while not stop[0] and task.ready.array.min() < 1 and os.getppid() == task.parent:
        time.sleep(_POLL)
    while not stop[0] and os.getppid() == task.parent:
        for part, froms, none in zip(parts, sources, unused, strict=True):
            here = slice(rows.start + part.rows.start, rows.start + part.rows.stop)
            mailbox = Mailbox(partial(_newest, board, here, froms, none, messages._make))
            own = state._make([value[part.rows] for value in state])
            new, messages = solver.wake(part.problem, part.arcs, own, cast(Any, mailbox))
            if not all_small(new.w):
                raise DivergenceError(int(board.published[here].min()), solver)
            board.publish(here, [*messages, new.w])
            for field, value in zip(state, new, strict=True):
                field[part.rows] = value
        counts = blocks.work()
        task.work.array[task.worker] = [counts[name] for name in WORK]
        if board.published.sum() >= task.most:
            return


def _newest(board: Board, here: slice, sources: np.ndarray, none: np.ndarray, make: Callable[..., AnyState]) -> AnyState:
    """Return what the sources of the agents ``here`` published last, and keep the greatest age."""
    values, times = board.read(sources, slice(None, -1))
    ages = np.where(none, 0.0, time.monotonic() - times).max(axis=1)
    board.stale[here] = np.maximum(board.stale[here], ages)
    return make(values)
