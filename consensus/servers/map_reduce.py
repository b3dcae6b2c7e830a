"""Batch gradient descent by map and reduce."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.problems import BaseProblem
from consensus.servers.mappers import Mapper, Own
from consensus.servers.system import Advance, System, Traffic, descend
from consensus.workers.blocks import blocks_by_load


class DescentState(NamedTuple):
    """The iterate w (1, P)."""

    round: int
    w: np.ndarray


@dataclass(frozen=True)
class MapReduceGradientDescent(System[DescentState]):
    """Batch gradient descent: map, partial sums over each worker's part of the agents; reduce, add them; step; broadcast.

    ``w+ = w - learning_rate (sum_i grad g_i(w) + grad r(w))``, and ``w+ = prox_r(w - learning_rate sum_i grad g_i(w))`` where r
    is not smooth; the same to rounding for any number of workers. The machines that exchange are the workers. The first of
    them adds and steps: with ``reduce="flat"`` it exchanges messages with all others, while with ``reduce="tree"`` sums and
    iterates pass through a binary tree, in log2(workers) messages one after the other.

    Parameters
    ----------
    learning_rate : float
        Step size, > 0.
    workers : int
        Parts of the data, no more than agents.
    reduce : {"flat", "tree"}
        How sums travel.
    on : mapper
        Where the map runs: :class:`Own`, processes of this machine, by default; or :class:`Joblib`, :class:`Dask`.

    References
    ----------
    Chu, Kim, Lin, Yu, Bradski, Ng, Olukotun, "Map-Reduce for machine learning on multicore", NeurIPS 2006, section 3 (its form
    of summation).

    Examples
    --------
    >>> from consensus.centralized import MapReduceGradientDescent
    >>> MapReduceGradientDescent(learning_rate=0.5, workers=4, reduce="tree")
    MapReduceGradientDescent(learning_rate=0.5, workers=4, reduce='tree')
    """

    learning_rate: float
    workers: int = 2
    reduce: str = "flat"
    on: Mapper = field(default_factory=Own, repr=False)  # the same run wherever it is: a checkpoint does not know it

    def __post_init__(self) -> None:
        _checks.number("learning_rate", self.learning_rate, above=0)
        _checks.count("workers", self.workers)
        _checks.choice("reduce", self.reduce, ("flat", "tree"))
        _checks.offers("on", self.on, ("open",), "a mapper, such as consensus.centralized.Joblib()")

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        self._at_most(problem, workers=self.workers)

    def init(self, problem: BaseProblem, w: np.ndarray) -> DescentState:
        return DescentState(0, w)

    @contextmanager
    def running(self, problem: BaseProblem, traffic: Traffic, state: DescentState) -> Iterator[Advance[DescentState]]:
        blocks = blocks_by_load(problem.load, self.workers)
        levels = (self.workers - 1).bit_length()
        # Up and down the tree the first worker has a message a level; at its last level others have none more than that.
        busiest = 2 * (levels if self.reduce == "tree" else self.workers - 1)
        with self.on.open(problem, blocks, self.reduce == "tree") as total:

            def advance(state: DescentState, due: int) -> DescentState:
                n, w = state
                gradient, samples = total(w)
                traffic.send(2 * (self.workers - 1), problem.parameters, busiest)
                traffic.work(1, samples)
                return DescentState(n + 1, descend(problem.regularizer, w, gradient, self.learning_rate))

            yield advance
