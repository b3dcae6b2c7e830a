"""The alternating exponential ring: machines in pairs at distances that double, half of them inside a machine at a time."""

from collections.abc import Hashable, Iterable

import numpy as np

from topologies._checks import integer
from topologies.schedules.finite_time import Edges, FiniteTime, cliques


class AlternatingExponentialRing(FiniteTime):
    """A schedule for machines with several workers each, of whose pairs half use the network between machines at a time [1]_.

    Agents 0, ..., w - 1 are the workers of machine 0, the next w those of machine 1, and so on; the number of machines is a
    power of two. In rounds 2 i and 2 i + 1 machines are paired at the distance 2^i. In one of these two rounds the 2 w workers
    of a pair average their values, in the other one the w workers of each machine: the pairs take turns, so that in each round
    about half of the pairs send between machines.

    After a period of 2 log2(machines) rounds agents that only mix hold the exact average.

    Parameters
    ----------
    machines : int
        Number of machines, a power of two, at least 2.
    workers : int
        Workers w of each machine, at least 1.

    References
    ----------
    .. [1] Z. Wang, J. Zhang, X. Wu and M. Johansson, "From promise to practice: realizing high-performance decentralized
       training", ICLR 2025.

    Examples
    --------
    >>> from topologies import AlternatingExponentialRing
    >>> network = AlternatingExponentialRing(machines=4, workers=1)
    >>> network.period, [sorted(network.graph(round).edges) for round in range(4)]
    (4, [[(2, 3)], [(0, 1)], [(1, 3)], [(0, 2)]])
    """

    def __init__(self, machines: int, workers: int = 4) -> None:
        self.machines, self.workers = integer("machines", machines, 2), integer("workers", workers, 1)
        agents = self.machines * self.workers
        if self.machines & (self.machines - 1):
            raise ValueError(
                f"machines must be a power of two, got {self.machines}; use BaseGraph({agents}), which takes any number"
            )
        super().__init__(agents, 2 * self.workers - 1)

    def __repr__(self) -> str:
        return f"AlternatingExponentialRing(machines={self.machines}, workers={self.workers})"

    def _settings(self) -> Hashable:
        return self.machines, self.workers

    def _rounds(self) -> Iterable[list[Edges]]:
        workers = np.arange(self.agents).reshape(self.machines, self.workers)
        pairs = 0
        distance = 1
        while distance < self.machines:
            early: list[Edges] = []
            late: list[Edges] = []
            for first in range(self.machines):
                if first // distance % 2 == 0:
                    both = workers[[first, first + distance]]
                    together, apart = (late, early) if pairs % 2 == 0 else (early, late)
                    together.append(cliques(both.reshape(1, -1)))
                    apart.append(cliques(both))
                    pairs += 1
            yield early
            yield late
            distance *= 2
