"""Blocks of agents on worker processes of this machine."""

import multiprocessing
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import reduction

import cloudpickle
import numpy as np

from consensus import _checks
from consensus._parallel import cores
from consensus.engines.base import Engine
from consensus.engines.crew import crew
from consensus.engines.parent import Parent
from consensus.engines.shared import SharedProblem, SharedState
from consensus.engines.states import Begin
from consensus.engines.worker import Part, Task, work
from consensus.observe import Observer
from consensus.problems import BaseProblem, Problem
from consensus.solvers import Solver
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class Processes(Engine):
    """Run on worker processes of this machine; the same bits as :class:`Stacked`.

    Workers are started afresh, without running the user's script again. Data and iterates live in memory that all of them
    share: a round is the solver's step on each worker's agents and, for every exchange, one wait for the others. Nothing is
    pickled inside rounds.

    Parameters
    ----------
    workers : int, optional
        By default one for each core; never more than agents.
    cores : int
        Threads inside a worker, for example for the blocks of :class:`consensus.surrogates.Blocks`.
    timeout : float
        Seconds that a worker waits for the others before the run is given up. A warning names who is late before that.
    strict : bool
        Check in every exchange that each message runs along an edge of that round's graph (slow; for tests).

    Raises
    ------
    NotImplementedError
        On Windows, where processes cannot share memory in this way.
    """

    workers: int | None = None
    cores: int = 1
    timeout: float = 600.0
    strict: bool = False

    def __post_init__(self) -> None:
        if self.workers is not None:
            _checks.count("workers", self.workers)
        _checks.count("cores", self.cores)
        _checks.number("timeout", self.timeout, above=0)
        if not hasattr(reduction, "DupFd"):  # Windows
            raise NotImplementedError(
                "Processes needs memory without a name, handed to workers as an open file, which this system does not have: "
                "use engine='stacked', which computes on all cores of one process, or MPI"
            )

    def run(
        self, problem: BaseProblem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        context = multiprocessing.get_context("spawn")
        blocks = by_cost(problem, min(self.workers or cores(), problem.agents))
        with _interrupted_later():
            lock = context.Lock()
        sizes = problem.parameters, problem.dtype, solver.width(problem), len(solver.columns)
        shared = SharedState.of(lock, blocks, *sizes)
        shared.round.array[:] = begin.round
        parts = []
        for worker, rows in enumerate(blocks):
            part = Part(worker, solver, schedule, begin.block(rows), rounds, observer.due, self.strict, self.timeout)
            parts.append(cloudpickle.dumps(part))
        data = SharedProblem.of(problem)
        tasks = [Task(shared, data, part, self.cores) for part in parts]

        def dismiss(_):
            shared.gate.abort.array[0] = 1

        with crew(work, tasks, dismiss) as (workers, pipes):
            return Parent(shared, workers, pipes, observer, rounds, self.timeout).observe()


def by_cost(problem: BaseProblem, workers: int) -> list[slice]:
    """Slices of neighbouring agents with about equal numbers of samples."""
    sizes = problem.shards.sizes + 1 if isinstance(problem, Problem) else np.ones(problem.agents)
    load = np.cumsum(sizes)
    # Padded arrays cost by their shape: agents count as much as their samples.
    load = load / load[-1] + np.arange(1, problem.agents + 1) / problem.agents
    ends = [0]
    for worker in range(1, workers):
        end = int(np.searchsorted(load, 2 * worker / workers)) + 1
        ends.append(min(max(end, ends[-1] + 1), problem.agents - (workers - worker)))
    return [slice(first, last) for first, last in zip(ends, [*ends[1:], problem.agents])]


@contextmanager
def _interrupted_later():
    """Ctrl-C waits for the end of this block, or a semaphore that is made, but not yet registered, would be left behind."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:  # others are not interrupted
        yield
        return
    came = []
    signal.signal(signal.SIGINT, lambda *_: came.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
