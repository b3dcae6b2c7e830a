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


class Threads(Engine):
    def __init__(self, threads):
        self.threads = threads

    def run(self, problem, schedule, solver, begin, rounds, observer):
        meeting, agents = Meeting(self.threads), problem.agents

        def one(thread):
            rows = slice(agents * thread // self.threads, agents * (thread + 1) // self.threads)
            meet = partial(meeting.all, thread)

            def report(state, counts, seconds):
                if not observer.due(state.round):
                    return None
                blocks = meet((state.w, solver.report(state), counts, seconds, flatten(state)))
                verdict = None
                if thread == 0:
                    w, reported, counts, seconds, states = zip(*blocks, strict=True)
                    seen = Gathered(state.round, np.concatenate(w), np.concatenate(reported), total(counts), max(seconds))
                    verdict = observer.see(seen)
                    if verdict.save:
                        observer.save(joined(states))
                return meet(verdict)[0].reason

            try:
                network = ThreadNetwork(schedule, rows, problem.dtype, meet)
                return run_rounds(problem.restrict(rows), network, solver, begin.block(rows), rounds, report)
            except BaseException:
                meeting.barrier.abort()
                raise

        with ThreadPoolExecutor(self.threads) as pool:
            done = [pool.submit(one, thread) for thread in range(self.threads)]
        errors = [each.exception() for each in done if each.exception()]
        for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
            raise error  # because of it the others' barriers broke
        return done[0].result()
