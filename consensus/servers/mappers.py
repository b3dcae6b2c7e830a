"""Mappers of a map-reduce: processes of this machine, or joblib's backends."""

from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from consensus import _checks
from consensus.problems import BaseProblem
from consensus.problems.state import SharedProblem
from consensus.servers.pool import died, pool
from consensus.workers.shared_memory import SharedArray

Sum: TypeAlias = tuple[np.ndarray, int]  # of gradients (1, P), and the samples in it
Total: TypeAlias = Callable[[np.ndarray], Sum]  # of the point (1, P)


class Mapper(Protocol):
    """Computes partial sums, and adds them."""

    def open(self, problem: BaseProblem, blocks: list[slice], tree: bool) -> AbstractContextManager[Total]:
        """Distribute the problem in parts of ``blocks`` of agents, whose sums are added over a tree if ``tree`` says so.

        Yields ``total(w) -> (gradient, samples)`` for w (1, P), the sum over all agents (1, P).
        """


def partial(problem: BaseProblem, w: np.ndarray) -> Sum:
    """Return the sum (1, P) of the gradients at w (1, P) of the agents in ``problem``, and the samples in it."""
    before = problem.work.samples
    with threadpool_limits(1, user_api="blas"), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        gradient = problem.gradient(np.broadcast_to(w, (problem.agents, problem.parameters)))
    return gradient.sum(axis=0, keepdims=True), problem.work.samples - before


def pairs(count: int) -> Iterator[list[tuple[int, int]]]:
    """Yield the levels of a binary tree, pairs of which the first adds the second's sum to its own; 0 ends with all.

    Examples
    --------
    >>> from consensus.servers.mappers import pairs
    >>> list(pairs(5))
    [[(0, 1), (2, 3)], [(0, 2)], [(0, 4)]]
    """
    step = 1
    while step < count:
        yield [(first, first + step) for first in range(0, count - step, 2 * step)]
        step *= 2


class Summing(NamedTuple):
    """A worker process of :class:`Own`, with the agents ``rows``."""

    problem: SharedProblem
    rows: slice
    number: int
    point: SharedArray
    sums: SharedArray

    def begin(self) -> Callable[[int | None], int]:
        problem, own = self.problem.problem().restrict(self.rows), self.sums.array[self.number]

        def work(other: int | None) -> int:
            """Compute this part's sum, or add that of ``other`` to it; return the samples in the gradient."""
            if other is not None:
                own[...] += self.sums.array[other]
                return 0
            gradient, samples = partial(problem, self.point.array)
            own[...] = gradient[0]
            return samples

        return work


@dataclass(frozen=True)
class Own(Mapper):
    """Worker processes of this machine, with sums in memory that they share.

    Examples
    --------
    >>> import consensus
    >>> from consensus.centralized import MapReduceGradientDescent, Own, solve
    >>> parts = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(parts.X, parts.y, agents=4, seed=0)
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    >>> result = solve(problem, MapReduceGradientDescent(learning_rate=0.2, workers=1, on=Own()), rounds=20)
    >>> bool(result.history["objective"][-1] < 0.6 * result.history["objective"][0])
    True
    """

    @contextmanager
    def open(self, problem: BaseProblem, blocks: list[slice], tree: bool) -> Iterator[Total]:
        data = problem.shared()
        point = SharedArray((1, problem.parameters), problem.dtype)
        sums = SharedArray((len(blocks), problem.parameters), problem.dtype)
        parts = [Summing(data, rows, number, point, sums) for number, rows in enumerate(blocks)]
        with pool(parts) as workers:

            def total(w: np.ndarray) -> Sum:
                point.array[...] = w
                samples = sum(workers.all(None))
                if not tree:
                    return sums.array.sum(axis=0, keepdims=True), samples
                for level in pairs(len(blocks)):
                    for first, second in level:
                        workers.submit(first, second)
                    workers.results()
                return sums.array[:1].copy(), samples

            yield total


@dataclass(frozen=True)
class Joblib(Mapper):
    """Joblib's backends: the parts are sent along with every call, and sums are added here.

    Parameters
    ----------
    jobs : int
        At the same time.
    backend : str
        "loky", "threading", "multiprocessing", or one that was registered with joblib, as Dask's and Ray's are.

    Examples
    --------
    >>> import consensus
    >>> from consensus.centralized import Joblib, MapReduceGradientDescent, solve
    >>> parts = consensus.datasets.split(*consensus.datasets.load("diabetes"))
    >>> shards = consensus.partition(parts.X, parts.y, agents=4, seed=0)
    >>> problem = consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01))
    >>> by_threads = MapReduceGradientDescent(learning_rate=0.2, workers=2, on=Joblib(jobs=2, backend="threading"))
    >>> result = solve(problem, by_threads, rounds=20)
    >>> bool(result.history["objective"][-1] < 0.6 * result.history["objective"][0])
    True
    """

    jobs: int = 2
    backend: str = "loky"

    def __post_init__(self) -> None:
        _checks.count("jobs", self.jobs)

    @contextmanager
    def open(self, problem: BaseProblem, blocks: list[slice], tree: bool) -> Iterator[Total]:
        from joblib import Parallel, delayed

        parts = [problem.restrict(rows) for rows in blocks]
        with Parallel(n_jobs=self.jobs, backend=self.backend) as parallel:

            def total(w: np.ndarray) -> Sum:
                try:
                    return added(parallel(delayed(partial)(part, w) for part in parts), tree)
                except BrokenExecutor as error:  # of "loky"; "multiprocessing" does not notice
                    raise died("a worker of joblib's died") from error

            yield total


def added(sums: list[Sum], tree: bool) -> Sum:
    """Return the sum of gradients and of samples, over a tree or from the first to the last."""
    gradients, samples = [gradient for gradient, _ in sums], sum(count for _, count in sums)
    if not tree:
        return np.add.reduce(gradients), samples
    for level in pairs(len(gradients)):
        for first, second in level:
            gradients[first] = gradients[first] + gradients[second]
    return gradients[0], samples
