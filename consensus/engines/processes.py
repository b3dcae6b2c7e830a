"""Blocks of agents on worker processes of this machine."""

from dataclasses import dataclass
from multiprocessing import reduction
from typing import ClassVar, Self

import cloudpickle
import numpy as np

from consensus import _checks
from consensus._parallel import cores
from consensus.engines.base import Engine
from consensus.engines.parent import Parent
from consensus.engines.shared import SharedProblem, SharedState
from consensus.engines.staff import Staff
from consensus.engines.states import Begin
from consensus.engines.worker import Part, Task
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

    To start a worker takes most of a second of CPU. In a ``with`` block they are started once and stay for the next
    :func:`consensus.solve`; if a run ends with an error, the workers that are still at it after a second are ended, and the
    next run starts others.

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
    _staff: ClassVar[Staff | None] = None  # that of a with block

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

    def __enter__(self) -> Self:
        if self._staff is not None:
            raise RuntimeError(f"{self} keeps its workers already: enter its with block once")
        object.__setattr__(self, "_staff", Staff())
        return self

    def __exit__(self, *_: object) -> None:
        staff = self._staff
        object.__setattr__(self, "_staff", None)
        if staff is not None:
            staff.end()

    def run(
        self, problem: BaseProblem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        blocks = by_cost(problem, min(self.workers or cores(), problem.agents))
        sizes = problem.parameters, problem.dtype, solver.width(problem), len(solver.history_columns)
        shared = SharedState.of(blocks, *sizes)
        shared.round.array[:] = begin.round
        parts = []
        for worker, rows in enumerate(blocks):
            part = Part(worker, solver, schedule, begin.block(rows), rounds, observer.due, self.strict, self.timeout)
            parts.append(cloudpickle.dumps(part))
        data = SharedProblem.of(problem)
        tasks = [Task(shared, data, part, self.cores) for part in parts]
        staff = Staff() if self._staff is None else self._staff
        try:
            with staff.hired(len(blocks)) as hired:
                shared.gate.lock = hired.lock
                parent = Parent(shared, hired.workers, hired.pipes, observer, rounds, self.timeout)
                try:
                    hired.give(tasks)
                    return parent.observe()
                finally:
                    hired.ready = parent.ended()
        finally:
            if staff is not self._staff:
                staff.end()


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
