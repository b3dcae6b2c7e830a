"""Synchronous stochastic gradient descent: the master waits for its workers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem, LazyProblem, Problem
from consensus.servers.pool import Pool, WorkerDied
from consensus.servers.rows import drawn, workers
from consensus.servers.system import Advance, System, Traffic, descend


class MomentumState(NamedTuple):
    """The iterate w and the momentum v, both (1, P)."""

    round: int
    w: np.ndarray
    v: np.ndarray


@dataclass(frozen=True)
class SynchronousSGD(System[MomentumState]):
    """Worker processes compute gradients on minibatches, the master waits for all of them and takes a step.

    With g_i the gradient of agent i's cost, estimated from its part of the batch,

        v+ = momentum v + sum_i g_i(w),     w+ = w - learning_rate (v+ + grad r(w)) ,

    and w+ = prox_r(w - learning_rate v+) where r is not smooth. Agents' gradients are added in their order: the iterates
    have the same bits with any number of workers. In a round w goes to all agents' machines, and a gradient comes back from
    each.

    Parameters
    ----------
    batch : int
        Samples a step; each of the A agents draws batch / A of its own, rounded up, as :class:`consensus.Minibatches` does, at
        most all.
    learning_rate : float
        Step size, > 0.
    momentum : float
        In [0, 1); 0 by default.
    workers : int
        Processes; no more than agents are started.
    drop_slowest : int
        How many workers, fewer than all, are not waited for: the step uses the gradients that came first, scaled to all
        samples. Then the iterates depend on which workers were slow.
    seed : int
        Seed of the draws.

    References
    ----------
    Chen, Pan, Monga, Bengio, Jozefowicz, "Revisiting distributed synchronous SGD", ICLR workshop, 2016 (backup workers).

    Examples
    --------
    >>> from consensus.centralized import SynchronousSGD
    >>> SynchronousSGD(batch=32, learning_rate=0.1, momentum=0.9, workers=2)
    SynchronousSGD(batch=32, learning_rate=0.1, momentum=0.9, workers=2, drop_slowest=0, seed=0)
    """

    batch: int
    learning_rate: float
    momentum: float = 0.0
    workers: int = 1
    drop_slowest: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        _checks.count("batch", self.batch)
        _checks.number("learning_rate", self.learning_rate, above=0)
        _checks.number("momentum", self.momentum, least=0, below=1)
        _checks.count("workers", self.workers)
        _checks.count("drop_slowest", self.drop_slowest, least=0, most=self.workers - 1)
        _checks.count("seed", self.seed, least=0)

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        drawn(problem, self.batch, self.seed)
        started = min(self.workers, problem.agents)
        if self.drop_slowest >= started:
            raise ValueError(f"drop_slowest must be below the workers, of which {started} have agents; got {self.drop_slowest}")

    def init(self, problem: BaseProblem, w: np.ndarray) -> MomentumState:
        return MomentumState(0, w, np.zeros_like(w))

    @contextmanager
    def running(self, problem: BaseProblem, traffic: Traffic, state: MomentumState) -> Iterator[Advance[MomentumState]]:
        assert isinstance(problem, Problem | LazyProblem), "it has samples"
        sizes, agents = problem.shards.sizes, problem.agents
        with workers(problem, self.workers, drawn(problem, self.batch, self.seed)) as started:

            def advance(state: MomentumState, due: int) -> MomentumState:
                n, w, v = state
                started.point.array[...] = w
                done, samples = _first(started.pool, n, self.drop_slowest)
                rows = np.concatenate([np.arange(agents)[started.blocks[worker]] for worker in sorted(done)])
                gradient = started.gradients.array[rows].sum(axis=0, keepdims=True)
                if len(rows) < agents:
                    gradient *= sizes.sum() / sizes[rows].sum()
                traffic.send(2 * agents, problem.parameters, 2 * agents)
                traffic.work(1, samples)
                v = self.momentum * v + gradient
                return MomentumState(n + 1, descend(problem.regularizer, w, v, self.learning_rate), v)

            yield advance


def _first(pool: Pool, round: int, dropped: int) -> tuple[list[int], int]:
    """Return the workers that computed gradients of ``round``, all but ``dropped``, and how many samples were in them.

    A worker that is still at an earlier round is asked when it is done: what it writes until then is not read.
    """
    done, samples = list[int](), 0
    for worker in pool.alive - pool.busy:
        pool.submit(worker, round)
    try:
        while len(done) < len(pool.pids) - dropped:
            worker, (answered, count) = pool.result()
            if answered == round:
                done.append(worker)
                samples += count
            else:
                pool.submit(worker, round)
    except WorkerDied as death:
        raise pool.lost(death.worker) from None
    return done, samples
