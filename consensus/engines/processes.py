"""Blocks of agents on worker processes of this machine."""

from dataclasses import dataclass
from typing import ClassVar, Self

import cloudpickle

from consensus import _checks
from consensus._parallel import cores
from consensus.engines.base import Engine
from consensus.engines.parent import Parent
from consensus.engines.protocols import Problem, Solver
from consensus.engines.shared import SharedState
from consensus.engines.states import Begin
from consensus.engines.worker import Part, Task, work
from consensus.observe import Observer
from consensus.workers.blocks import blocks_by_load
from consensus.workers.kept import KeptWorkers
from consensus.workers.shared_memory import check_system
from topologies import _names
from topologies.schedules import ScheduleLike


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
