"""Blocks of agents on worker processes of this machine."""

import multiprocessing
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace

import cloudpickle
import numpy as np

from consensus import _checks
from consensus._shared import SharedArray
from consensus.engines.base import Engine, begin_block
from consensus.engines.worker import Desk, Task, work
from consensus.errors import WorkerError
from consensus.problem import Problem

_ENDING = 5.0  # seconds that workers have to end by themselves


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
        Seconds that a worker waits for the others before the run is given up.
    strict : bool
        Check in every exchange that each message runs along an edge of that round's graph (slow; for tests).
    """

    workers: int | None = None
    cores: int = 1
    timeout: float = 600.0
    strict: bool = False

    def __post_init__(self):
        if self.workers is not None:
            _checks.count("workers", self.workers)
        _checks.count("cores", self.cores)
        _checks.number("timeout", self.timeout, above=0)

    def run(self, problem, schedule, solver, begin, rounds, observer):
        context = multiprocessing.get_context("spawn")
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        workers = min(self.workers or available, problem.agents)
        blocks = _by_cost(problem, workers)
        desk = Desk.of(context.Lock(), blocks, problem.parameters, problem.dtype)
        due = _Due(observer.every, observer.rounds, observer.saver.every if observer.saver else None)
        parts = []
        for worker, rows in enumerate(blocks):
            mine = begin_block(solver, begin, rows)
            parts.append(cloudpickle.dumps((solver, schedule, rounds, due, worker, rows, mine, self.strict, self.timeout)))
        shared = _share(problem)
        pipes = [context.Pipe(duplex=False) for _ in blocks]
        crew = [
            context.Process(target=work, args=(Task(desk, shared, part, self.cores), sender), daemon=True)
            for part, (_, sender) in zip(parts, pipes, strict=True)
        ]
        with _main_not_rerun():
            for process in crew:
                process.start()
        for _, sender in pipes:
            sender.close()
        try:
            return _observe(desk, crew, [receiver for receiver, _ in pipes], observer, due, rounds)
        finally:
            desk.gate.abort.array[0] = 1
            deadline = time.monotonic() + _ENDING
            for process in crew:
                process.join(max(0.0, deadline - time.monotonic()))
                if process.is_alive():
                    process.kill()
                    process.join()
            for receiver, _ in pipes:
                receiver.close()


@dataclass(frozen=True)
class _Due:
    """When the parent looks: the workers know too."""

    every: int
    rounds: int
    saves: int | None

    def recorded(self, round):
        return round % self.every == 0 or round == self.rounds

    def saved(self, round):
        return self.saves is not None and (round % self.saves == 0 or round == self.rounds)

    def __call__(self, round):
        return self.recorded(round) or self.saved(round)


def _observe(desk, crew, receivers, observer, due, rounds):
    """The parent's part: at due rounds look at all iterates and say whether to go on."""
    visit = 0
    while True:
        visit += 1
        _wait(desk, crew, receivers, observer, visit)
        round = int(desk.round.array[0])
        observer.tick(round)
        observer.w = desk.iterates.array.copy()
        counts, seconds = desk.totals()
        reason = observer.record(round, observer.w, counts, seconds) if due.recorded(round) else None
        last = bool(reason) or round >= rounds
        save = due.saved(round) or (last and observer.saver is not None)
        desk.command.array[:] = visit, last, save
        desk.gate.arrive(desk.parent, visit)
        if save:
            parts = [_receive(desk, crew, receivers, observer, worker) for worker in range(len(crew))]
            fields = {
                name: np.concatenate([part[name] for part in parts]) if np.ndim(value) else value
                for name, value in parts[0].items()
            }
            observer.save(fields, counts, seconds)
        if last:
            return reason


def _wait(desk, crew, receivers, observer, visit):
    """Wait until all workers report; raise what went wrong in one of them."""
    workers, pause, looked = slice(0, desk.parent), 2e-5, time.monotonic()
    while not desk.visits.array[workers].min() >= visit:
        time.sleep(pause)
        pause = min(1.3 * pause, 2e-3)
        if time.monotonic() - looked > 0.05:
            looked = time.monotonic()
            observer.tick(max(observer.round, int(desk.round.array.min())))
            _raise_troubles(desk, crew, receivers)
    with desk.gate.lock:
        pass


def _receive(desk, crew, receivers, observer, worker):
    while not receivers[worker].poll(0.05):
        _raise_troubles(desk, crew, receivers)
    kind, content = cloudpickle.loads(receivers[worker].recv_bytes())
    if kind == "trouble":
        raise _trouble(desk, worker, content)
    return content


def _raise_troubles(desk, crew, receivers):
    for worker, (process, receiver) in enumerate(zip(crew, receivers, strict=True)):
        if receiver.poll():
            try:
                kind, content = cloudpickle.loads(receiver.recv_bytes())
            except EOFError:
                kind, content = "dead", None
            if kind == "trouble":
                raise _trouble(desk, worker, content)
        if not process.is_alive() and not receiver.poll():
            raise WorkerError(
                f"{_name(desk, worker)} died in round {int(desk.round.array[worker]) + 1} (exit code {process.exitcode}). "
                "If there is a checkpoint, go on with solve(..., resume=path)"
            )


def _trouble(desk, worker, content):
    error, text = content
    if error is None:
        return WorkerError(f"{_name(desk, worker)}: {text}")
    error.add_note(f"in {_name(desk, worker)}, round {int(desk.round.array[worker]) + 1}\n{text}")
    return error


def _name(desk, worker):
    rows = desk.blocks[worker]
    return f"worker {worker} (agents {rows.start} to {rows.stop - 1})"


def _by_cost(problem, workers):
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


def _share(problem):
    """The problem with its data in shared memory, ready to be sent: ``(pickled rest, arrays)``."""
    if not isinstance(problem, Problem):
        return cloudpickle.dumps(problem.restrict(slice(0, problem.agents))), ()
    shards = problem.shards
    arrays = tuple(SharedArray.of(array) for array in (shards.features, shards.targets, shards.weights, problem.weights))
    bare = problem.restrict(slice(0, problem.agents))
    empty = np.empty(0)
    bare.weights = empty
    bare.shards = replace(shards, features=empty, targets=empty, weights=empty, indices=empty, memory=())
    return cloudpickle.dumps(bare), arrays


@contextmanager
def _main_not_rerun():
    """Start processes that do not import the user's script: nothing of it is needed, and it may lack a main guard."""
    main = sys.modules["__main__"]
    kept = {name: main.__dict__.pop(name) for name in ("__file__", "__spec__") if name in main.__dict__}
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(kept)
