"""Schedules of moving agents, which are adjacent when they are close."""

import math
from collections.abc import Hashable

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.pattern import complete_pattern, entries, pairs_pattern, with_edges
from topologies.schedules.base import Schedule, stream
from topologies.weights.metropolis import metropolis_entries

_LAST = 2**53  # larger rounds are not exact in floating point


class Mobile(Schedule):
    """A schedule of agents that move in the unit square and are adjacent within a radius, with Metropolis weights.

    Agent i starts at a uniform point p_i and moves by `speed` in every round, in a uniform direction u_i, along a straight line
    that is reflected at the sides of the square [1]_. In each coordinate

        x_i(n) = fold(p_i + n speed u_i),        fold(s) = the distance from s to the nearest even integer,

    so at all times agents are uniformly distributed. Agents i and j are adjacent in round n if ``|x_i(n) - x_j(n)| <= radius``.
    With probability one, every two agents meet again and again, so the agents are jointly connected for any radius.

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
        self.radius, self.speed = _positive("radius", radius), _positive("speed", speed)
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

    def _entries(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from scipy.spatial import cKDTree  # slow to import

        first, second = cKDTree(positions).query_pairs(self.radius, output_type="ndarray").T
        return entries(pairs_pattern(self.agents, first, second, diagonal=True))

    @property
    def static(self) -> bool:
        """Whether all agents are adjacent at all times, because the radius covers the diagonal of the square."""
        return self.agents == 1 or self.radius >= math.sqrt(2)

    def key(self, round: int) -> int:
        round = integer("round", round, 0)
        return 0 if self.static else round

    def weights(self, key: int) -> sparse.csr_array:
        return metropolis_entries(self.agents, *self._entries(self.positions(key)))

    def graph(self, round: int) -> nx.Graph:
        positions = self.positions(round)
        nodes = nx.empty_graph(self.agents)
        nx.set_node_attributes(nodes, dict(enumerate(map(tuple, positions.tolist()))), "pos")
        return with_edges(nodes, *self._entries(positions))

    def union(self) -> sparse.csr_array:
        return complete_pattern(self.agents)


def _positive(name: str, value: float) -> float:
    return _checks.real(name, value, "a finite number above 0", lambda number: 0 < number < math.inf)
