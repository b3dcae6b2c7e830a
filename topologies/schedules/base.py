"""Common parts of the schedules of this package: comparison, a cache and random streams."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from topologies.pattern import GraphLike, labels_of
from topologies.schedules.protocols import GraphSchedule, UnionSchedule

Result = TypeVar("Result")


class Schedule(GraphSchedule, UnionSchedule):
    """Base class of the schedules of this package, which compare and hash by ``_settings()``.

    Subclasses define ``key``, ``weights``, ``graph``, ``union`` and ``_settings``.

    Attributes
    ----------
    agents : int
        Number of agents, set by each schedule.
    labels : tuple or None
        The user's names of the agents, in their order; None where they are the numbers 0, ..., A - 1 alone.
    static : bool
        Whether all rounds, without end, have the same matrix. A class that defines ``key`` but not ``static`` is not static,
        whatever its base class.

    Examples
    --------
    >>> import networkx as nx, topologies
    >>> from topologies.schedules import Schedule
    >>> class Alternating(Schedule):
    ...     def __init__(self, even, odd):
    ...         self.graphs, self.agents = (even, odd), len(even)
    ...     def _settings(self):
    ...         return tuple(tuple(graph.edges) for graph in self.graphs)
    ...     def key(self, round):
    ...         return round % 2
    ...     def weights(self, key):
    ...         return topologies.metropolis(self.graphs[key])
    ...     def graph(self, round):
    ...         return self.graphs[round % 2].copy()
    ...     def union(self):
    ...         return topologies.adjacency(nx.compose(*self.graphs))
    >>> pairs = Alternating(nx.Graph([(0, 1), (2, 3)]), nx.Graph([(1, 2), (3, 0)]))
    >>> pairs.static, topologies.conditions(pairs).window, pairs == Alternating(*pairs.graphs)
    (False, 2, True)
    """

    agents = 0
    labels: tuple[Hashable, ...] | None = None

    def __init_subclass__(cls, **settings: object) -> None:
        super().__init_subclass__(**settings)
        if "key" in vars(cls) and "static" not in vars(cls):
            cls.static = False  # type: ignore[attr-defined]  # an attribute in some classes, a property in others

    def _name_agents(self, graph: GraphLike) -> None:
        """Take the names of the agents from the nodes of a graph, if there are any."""
        if (names := labels_of(graph)) is not None:
            self.labels = names

    def _settings(self) -> Hashable:
        """Return all that determines the matrices."""
        raise NotImplementedError(f"{type(self).__name__} must define _settings(), which determines its matrices")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._settings() == other._settings()

    def __hash__(self) -> int:
        return hash((type(self), self._settings()))


class Recent:
    """A cache of the last results, as many as have together the size `most`; a copy for another process starts empty."""

    def __init__(self, most: int = 8) -> None:
        self._most, self._total = most, 0
        self._results: dict[Hashable, tuple[Any, int]] = {}

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return Recent, (self._most,)

    def get(self, key: Hashable, make: Callable[[], Result], size: Callable[[Result], int] = lambda result: 1) -> Result:
        """Return the result of `key`, from the cache or from ``make()``, which then replaces the oldest."""
        if key not in self._results:
            result = make()
            needed = size(result)
            while self._results and self._total + needed > self._most:
                self._total -= self._results.pop(next(iter(self._results)))[1]
            self._results[key] = result, needed
            self._total += needed
        found: Result = self._results[key][0]
        return found


def stream(tag: bytes, seed: int, round: int) -> np.random.Generator:
    """Return the random generator of a round; `tag`, four bytes, separates the uses of one seed."""
    # Spawn keys, unlike lists of integers, give different streams to all pairs (seed, round).
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int.from_bytes(tag, "big"), round)))
