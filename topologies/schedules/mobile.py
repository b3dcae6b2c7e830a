"""Schedules of moving agents, which are adjacent when they are close."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from os import PathLike

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.pattern import Frame, complete_pattern, entries, is_table, pairs_pattern, with_edges
from topologies.positions import close, finite, paths, positive, tolerant
from topologies.schedules.base import Schedule, stream
from topologies.weights.metropolis import metropolis_entries

_LAST = 2**53  # larger rounds are not exact in floating point


class _Moving(Schedule):
    """A schedule of agents with positions, adjacent within a radius, with Metropolis weights."""

    radius: float

    @abstractmethod
    def positions(self, round: int) -> np.ndarray:
        """Return the positions of the agents in a round, an array (agents, dimensions)."""
        ...

    def _entries(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = close(positions, self.radius).T
        return entries(pairs_pattern(self.agents, first, second, diagonal=True))

    def weights(self, key: int) -> sparse.csr_array:
        return metropolis_entries(self.agents, *self._entries(self.positions(key)))

    def graph(self, round: int) -> nx.Graph:
        positions = self.positions(round)
        nodes = nx.empty_graph(self.agents)
        nx.set_node_attributes(nodes, dict(enumerate(map(tuple, positions.tolist()))), "pos")
        return with_edges(nodes, *self._entries(positions))


class Mobile(_Moving):
    """A schedule of agents that move in the unit square and are adjacent within a radius, with Metropolis weights.

    Agent i starts at a uniform point p_i and moves by `speed` in every round, in a uniform direction u_i, along a straight line
    that is reflected at the sides of the square [1]_. In each coordinate

        x_i(n) = fold(p_i + n speed u_i),        fold(s) = the distance from s to the nearest even integer,

    so at all times agents are uniformly distributed. Agents i and j are adjacent in round n if ``|x_i(n) - x_j(n)| <= radius``.
    With probability one, every two agents meet again and again, so the agents are jointly connected for any radius.
    `Mobile.from_positions` takes positions that were recorded.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.
    radius : float
        Largest distance of adjacent agents, above 0; the square has sides of length one.
    speed : float
        Distance moved in a round, above 0.
    seed : int
        Seed, at least 0.

    References
    ----------
    .. [1] T. Camp, J. Boleng and V. Davies, "A survey of mobility models for ad hoc network research" (2002), the random
       direction model without pauses.

    Examples
    --------
    >>> from topologies import Mobile
    >>> network = Mobile(20, radius=0.3, speed=0.01, seed=0)
    >>> network
    Mobile(agents=20, radius=0.3, speed=0.01, seed=0)
    >>> network.positions(1000).shape
    (20, 2)
    >>> [network.graph(n).number_of_edges() for n in (0, 100, 10000)]
    [52, 47, 38]
    """

    meets_all = True

    def __init__(self, agents: int, radius: float, speed: float, seed: int = 0) -> None:
        self.agents, self.seed = integer("agents", agents, 1), integer("seed", seed, 0)
        _checks.memory(f"Mobile(agents={self.agents}, ...)", self.agents, each=100)
        self.radius, self.speed = positive("radius", radius), positive("speed", speed)
        drawn = stream(b"move", self.seed, 0).random((3, self.agents))
        self._start = drawn[:2].T.copy()
        angle = 2 * math.pi * drawn[2]
        self._step = self.speed * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def __repr__(self) -> str:
        return f"Mobile(agents={self.agents}, radius={self.radius}, speed={self.speed}, seed={self.seed})"

    def _settings(self) -> Hashable:
        return self.agents, self.radius, self.speed, self.seed

    def positions(self, round: int) -> np.ndarray:
        """Return the positions of the agents in a round.

        Parameters
        ----------
        round : int
            Round, at least 0.

        Returns
        -------
        numpy array, shape (agents, 2)
            Coordinates in [0, 1].
        """
        # An unfolded coordinate has period two.
        path = np.mod(self._start + integer("round", round, 0, _LAST) * self._step, 2.0)
        folded: np.ndarray = np.minimum(path, 2.0 - path)
        return folded

    @property
    def static(self) -> bool:
        """True if all agents are adjacent at all times, because the radius covers the diagonal of the square."""
        return self.agents == 1 or self.radius >= math.sqrt(2)

    def key(self, round: int) -> int:
        round = integer("round", round, 0)
        return 0 if self.static else round

    def union(self) -> sparse.csr_array:
        return complete_pattern(self.agents)

    @staticmethod
    def from_positions(
        positions: ArrayLike | Frame | str | PathLike[str],
        radius: float,
        *,
        columns: Sequence[str] | None = None,
        cyclic: bool = True,
    ) -> Schedule:
        """Return the schedule of agents at recorded positions, adjacent within a radius, with Metropolis weights.

        Parameters
        ----------
        positions : array_like of shape (rounds, agents, 2), pandas DataFrame or path of a CSV file
            Positions in every round, also with one or three coordinates. A table has a row for each time and agent, in any
            order, and every time is a round; agents are sorted by their names.
        radius : float
            Largest distance of adjacent agents, above 0, in the unit of positions; rounding errors do not count.
        columns : names, optional
            Columns of a table: the time, the agent, and one to three coordinates. By default ``time``, ``agent``, ``x``, ``y``,
            and ``z`` if there is one.
        cyclic : bool
            Whether rounds start again after the last one; otherwise agents stay where they were last.

        Returns
        -------
        schedule
            Schedule with ``positions(round)``, and ``labels``, the names of the agents.

        Raises
        ------
        ValueError
            If a position is missing, masked, not finite or given twice, or is in degrees.

        Examples
        --------
        >>> import topologies
        >>> network = topologies.Mobile.from_positions([[[0, 0], [1, 0], [3, 0]], [[0, 0], [1, 0], [2, 0]]], radius=1)
        >>> [sorted(network.graph(n).edges) for n in range(3)]
        [[(0, 1)], [(0, 1), (1, 2)], [(0, 1)]]
        """
        return _Recorded(positions, radius, columns, cyclic)


class _Recorded(_Moving):
    """The schedule that `Mobile.from_positions` returns."""

    def __init__(
        self, positions: ArrayLike | Frame | str | PathLike[str], radius: float, columns: Sequence[str] | None, cyclic: bool
    ) -> None:
        self.cyclic, radius = _checks.flag("cyclic", cyclic), positive("radius", radius)
        labels: list[Hashable] | None = None
        if is_table(positions) or isinstance(positions, str | PathLike):
            labels, self._positions = paths(positions, columns)
        else:
            self._positions = finite(positions)
        if self._positions.ndim != 3 or not self._positions.size or self._positions.shape[2] > 3:
            raise ValueError(
                f"positions must have shape (rounds, agents, 2), or one or three coordinates; got {self._positions.shape}"
            )
        self.rounds, self.agents = self._positions.shape[:2]
        self.labels = None if labels is None else tuple(labels)
        self.radius = tolerant(radius, self._positions)
        self._said, self._still = radius, bool((self._positions == self._positions[0]).all())

    def __repr__(self) -> str:
        size = f"agents={self.agents}, rounds={self.rounds}"
        return f"Mobile.from_positions({size}, radius={self._said}, cyclic={self.cyclic})"

    def _settings(self) -> Hashable:
        return self.labels, self._positions.tobytes(), self._positions.shape, self.radius, self.cyclic

    @property
    def static(self) -> bool:
        """True if agents are in one place in all rounds."""
        return self._still

    def key(self, round: int) -> int:
        round = integer("round", round, 0)
        return 0 if self.static else round % self.rounds if self.cyclic else min(round, self.rounds - 1)

    def positions(self, round: int) -> np.ndarray:
        found: np.ndarray = self._positions[self.key(round)].copy()
        return found

    def graph(self, round: int) -> nx.Graph:
        graph = super().graph(round)
        nx.set_node_attributes(graph, dict(enumerate(self.labels or ())), "label")
        return graph

    def union(self) -> sparse.csr_array:
        again = self._positions if self.cyclic else self._positions[-1:]
        pairs = np.unique(np.concatenate([np.sort(close(each, self.radius), axis=1) for each in again]), axis=0)
        return pairs_pattern(self.agents, *pairs.T)
