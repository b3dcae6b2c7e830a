"""An engine with blocks of agents on threads of this process, written from docs/engines.md alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np

from consensus.communication import BlockNetwork, flatten, joined
from consensus.communication.plans import Plan
from consensus.engines import Begin, Engine, run_rounds
from consensus.engines.protocols import Problem, Solver, State
from consensus.observe import Gathered, Observer, total
from topologies.schedules import ScheduleLike

T = TypeVar("T")


class Allgather:
    """Gives each of several threads the objects of all."""

    def __init__(self, threads: int) -> None:
        self.barrier, self.objects = threading.Barrier(threads), [None] * threads

    def __call__(self, thread: int, own: Any) -> list[Any]:
        self.objects[thread] = own
        self.barrier.wait()
        everyone = list(self.objects)
        self.barrier.wait()  # no thread brings its next object before all have read this one
        return everyone


class ThreadNetwork(BlockNetwork):
    """The network as the block of one thread sees it."""

    def __init__(self, schedule: ScheduleLike, rows: slice, dtype: np.dtype, allgather: Callable[[Any], list[Any]]) -> None:
        super().__init__(schedule, rows, dtype)
        self.allgather = allgather

    def _gather(self, plan: Plan, blocks: Sequence[np.ndarray]) -> list[np.ndarray]:
        copies = [block.copy() for block in blocks]  # a solver may change its own as soon as it has the others'
        return [np.concatenate(parts) for parts in zip(*self.allgather(copies), strict=True)]


def on_threads(threads: int, schedule: ScheduleLike, dtype: np.dtype, function: Callable[[ThreadNetwork, slice], T]) -> list[T]:
    """Call ``function(network, rows)`` for each block of agents, on a thread each; return the results in order."""
    allgather, agents = Allgather(threads), schedule.agents

    def one(thread: int) -> T:
        rows = slice(agents * thread // threads, agents * (thread + 1) // threads)
        try:
            return function(ThreadNetwork(schedule, rows, dtype, partial(allgather, thread)), rows)
        except BaseException:
            allgather.barrier.abort()
            raise

    with ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(one, thread) for thread in range(threads)]
    errors = [error for each in done if (error := each.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error  # it broke the barriers of the others
    return [each.result() for each in done]


class Threads(Engine):
    """Blocks of agents on threads of this process, which exchange their rows.

    Parameters
    ----------
    threads : int
        How many blocks.

    Examples
    --------
    >>> import consensus, topologies
    >>> from consensus.solvers import DGD
    >>> from consensus.testing.threads import Threads
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=5, parameters=3)
    >>> network = topologies.Static(topologies.ring(5))
    >>> one, two = (consensus.solve(problem, network, DGD(0.01), rounds=5, start=[1.0, 2.0, 3.0], engine=engine)
    ...             for engine in ("stacked", Threads(2)))
    >>> bool((one.w == two.w).all())
    True
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def run(
        self, problem: Problem, schedule: ScheduleLike, solver: Solver, begin: Begin, rounds: int, observer: Observer
    ) -> str | None:
        def one(network: ThreadNetwork, rows: slice) -> str | None:
            def report(state: State, counts: dict[str, Any], seconds: float) -> str | None:
                if not observer.due(state.round):
                    return None
                blocks = network.allgather((state.w, solver.report(state), counts, seconds, flatten(state)))
                verdict = None
                if rows.start == 0:
                    w, reported, all_counts, clocks, states = zip(*blocks, strict=True)
                    seen = Gathered(state.round, np.concatenate(w), np.concatenate(reported), total(all_counts), max(clocks))
                    verdict = observer.see(seen)
                    if verdict.save:
                        observer.save(joined(states))
                reason: str | None = network.allgather(verdict)[0].reason
                return reason

            return run_rounds(problem.restrict(rows), network, solver, begin.block(rows), rounds, report)

        return on_threads(min(self.threads, problem.agents), schedule, problem.dtype, one)[0]
