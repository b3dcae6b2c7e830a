"""State of a problem beside its data: counts of work, cached results, its form for other processes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import cloudpickle

from consensus.workers.shared_memory import SharedArray


@dataclass
class Work:
    """The work that a block of agents has done so far.

    Parameters
    ----------
    gradients : int
        Gradients of the local cost, of all samples or of a batch, per agent.
    samples : int
        Samples in these gradients, summed over the agents of the block; 0 for costs given by functions. Divided by the
        network's number of samples, it is the equivalent number of whole gradients.
    solves : int
        Local problems solved, per agent.
    iterations : int
        Iterations inside the local solves, summed over the agents of the block; closed forms take none.
    unfinished : int
        Local solves that did not reach their tolerance, summed over the agents of the block.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> shards = consensus.partition(np.eye(6), np.zeros(6), agents=2)
    >>> problem = consensus.Problem(consensus.Linear(6), consensus.SquaredLoss(), shards)
    >>> whole = problem.gradient(np.ones((2, 7)))
    >>> some = problem.gradient(np.ones((2, 7)), consensus.Minibatches(2).at(problem, 0))
    >>> problem.work.gradients, problem.work.samples
    (2, 10)
    """

    gradients: int = 0
    samples: int = 0
    solves: int = 0
    iterations: int = 0
    unfinished: int = 0

    def count(self, samples: int) -> None:
        """Count a gradient of each agent.

        Parameters
        ----------
        samples : int
            How many samples it took, summed over the agents.
        """
        self.gradients += 1
        self.samples += samples

    @property
    def counts(self) -> dict[str, int]:
        """All counts by name, for the history."""
        return vars(self).copy()


T = TypeVar("T")


class Cache:
    """Results that depend on a problem's data alone, such as a linear model's factors, kept from round to round.

    A pickled copy is empty: everything in it can be computed again.

    Examples
    --------
    >>> from consensus.problems.state import Cache
    >>> cache = Cache()
    >>> cache.get("answer", lambda: 42), cache.get("answer", lambda: 43)
    (42, 42)
    """

    def __init__(self) -> None:
        self._results: dict[Hashable, object] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result stored under ``key``; if there is none, store that of ``make()``."""
        if key not in self._results:
            self._results[key] = make()
        return self._results[key]  # type: ignore[return-value]  # a key stands for the results of one function

    def __reduce__(self) -> tuple[type[Cache], tuple[()]]:
        return Cache, ()


class TestSet(Protocol):
    """A test set, as :meth:`consensus.problems.BaseProblem.test_set` returns it."""

    @property
    def samples(self) -> int:
        """Number of test samples, of all agents."""

    def digests(self) -> list[str]:
        """Return digests of the test set, by which checkpoints know it."""


class SharedProblem(NamedTuple):
    """A pickled problem without its data, and the data as ``arrays`` that all processes share, for its ``take``."""

    rest: bytes
    arrays: tuple[SharedArray, ...] = ()

    def problem(self) -> Any:  # noqa: ANN401  # of the class that was pickled
        """Return the problem, with views of the shared data."""
        problem = cloudpickle.loads(self.rest)
        if self.arrays:
            problem.take(*(array.array for array in self.arrays))
        return problem
