"""The agents' gradients at the server's iterate, computed by worker processes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.problems.state import SharedProblem
from consensus.servers.pool import Pool, pool
from consensus.workers.blocks import blocks_by_load
from consensus.workers.shared_memory import SharedArray


def drawn(problem: BaseProblem, batch: int, seed: int) -> Minibatches:
    """Return the rule by which the agents of ``problem`` draw ``batch`` samples together: each its part, rounded up."""
    Minibatches(1).check(problem)
    most = problem.shards.weights.shape[1]
    return Minibatches(min(-(-batch // problem.agents), most), seed)


class Rows(NamedTuple):
    """A worker that computes the gradients of the agents ``rows``.

    Attributes
    ----------
    problem : SharedProblem
        The problem.
    rows : slice
        Agents of the worker.
    point : SharedArray (1, P)
        The iterate.
    gradients : SharedArray (A, P)
        All agents' gradients, of which the worker writes its rows.
    rule : Minibatches or None
        Minibatches; None for all samples.
    """

    problem: SharedProblem
    rows: slice
    point: SharedArray
    gradients: SharedArray
    rule: Minibatches | None

    def begin(self) -> Callable[[int], tuple[int, int]]:
        """Return ``gradient(round)``, which writes the gradients and returns the round and the number of samples in them."""
        problem = self.problem.problem().restrict(self.rows)

        def gradient(round: int) -> tuple[int, int]:
            before = problem.work.samples
            w = np.broadcast_to(self.point.array, (problem.agents, problem.parameters))
            self.gradients.array[self.rows] = problem.gradient(w, draw(self.rule, problem, round))
            return round, problem.work.samples - before

        return gradient


class Workers(NamedTuple):
    """Worker processes with blocks of agents: their ``pool``, the ``blocks``, and the memory shared with them."""

    pool: Pool
    blocks: list[slice]
    point: SharedArray
    gradients: SharedArray


@contextmanager
def workers(problem: BaseProblem, count: int, rule: Minibatches | None) -> Iterator[Workers]:
    """Start ``count`` processes, no more than agents, that compute the gradients of ``problem``."""
    blocks = blocks_by_load(problem.load, min(count, problem.agents))
    point = SharedArray((1, problem.parameters), problem.dtype)
    gradients = SharedArray((problem.agents, problem.parameters), problem.dtype)
    data = problem.shared()
    with pool([Rows(data, rows, point, gradients, rule) for rows in blocks]) as started:
        yield Workers(started, blocks, point, gradients)
