"""An engine with blocks of agents on threads of this process, written from docs/engines.md alone."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from consensus.communication import BlockNetwork, flatten, joined
from consensus.engines import Engine, run_rounds
from consensus.observe import Gathered, total


class Meeting:
    """Where each of some threads hears what the others bring."""

    def __init__(self, threads):
        self.barrier, self.brought = threading.Barrier(threads), [None] * threads

    def all(self, thread, mine):
        self.brought[thread] = mine
        self.barrier.wait()
        everyone = list(self.brought)
        self.barrier.wait()  # nobody brings the next thing before all have heard this one
        return everyone


class ThreadNetwork(BlockNetwork):
    def __init__(self, schedule, rows, dtype, meet):
        super().__init__(schedule, rows, dtype)
        self.meet = meet

    def _gather(self, plan, blocks):
        copies = [block.copy() for block in blocks]  # a solver may change its own as soon as it has heard the others'
        return [np.concatenate(parts) for parts in zip(*self.meet(copies), strict=True)]


def on_threads(threads, schedule, dtype, function):
    """``function(network, rows)`` of each of some blocks of agents, on a thread each; what they return, in order."""
    meeting, agents = Meeting(threads), schedule.agents

    def one(thread):
        rows = slice(agents * thread // threads, agents * (thread + 1) // threads)
        try:
            return function(ThreadNetwork(schedule, rows, dtype, partial(meeting.all, thread)), rows)
        except BaseException:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(threads) as pool:
        done = [pool.submit(one, thread) for thread in range(threads)]
    errors = [each.exception() for each in done if each.exception()]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error  # because of it the others' barriers broke
    return [each.result() for each in done]


class Threads(Engine):
    """Blocks of agents on threads of this process, which hand each other their rows.

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

    def __init__(self, threads):
        self.threads = threads

    def run(self, problem, schedule, solver, begin, rounds, observer):
        def one(network, rows):
            def report(state, counts, seconds):
                if not observer.due(state.round):
                    return None
                blocks = network.meet((state.w, solver.report(state), counts, seconds, flatten(state)))
                verdict = None
                if rows.start == 0:
                    w, reported, counts, seconds, states = zip(*blocks, strict=True)
                    seen = Gathered(state.round, np.concatenate(w), np.concatenate(reported), total(counts), max(seconds))
                    verdict = observer.see(seen)
                    if verdict.save:
                        observer.save(joined(states))
                return network.meet(verdict)[0].reason

            return run_rounds(problem.restrict(rows), network, solver, begin.block(rows), rounds, report)

        return on_threads(min(self.threads, problem.agents), schedule, problem.dtype, one)[0]
