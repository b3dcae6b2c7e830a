"""Agents on the move: who can talk to whom depends on where everyone is."""

import math

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.pattern import complete_pattern, entries, pairs_pattern, with_edges
from topologies.schedules.base import Schedule, stream
from topologies.weights.metropolis import metropolis_entries

_LAST = 2**53  # rounds beyond have no floating-point number of their own


class Mobile(Schedule):
    """Agents walk in the unit square and talk to those within a radius; Metropolis weights.

    Agent i starts at a uniform point p_i and goes `speed` far in every round, in a uniform direction u_i, along a
    straight line that the walls of the square reflect [1]_. In each coordinate

        x_i(n) = fold(p_i + n speed u_i),        fold(s) = the distance from s to the nearest even integer,

    so any round is found without those before it, and at all times the agents are spread uniformly over the square. Agents i
    and j are neighbours in round n when |x_i(n) - x_j(n)| <= radius.

    No two agents walk in step (but for a set of starts and directions of probability zero), so every two come within
    the radius again and again: the agents are jointly connected, however small it is. In a single round they are
    likely to be connected only from a radius of sqrt(log(agents) / (pi agents)) on.

    Parameters
    ----------
    agents : int of at least 1
    radius : float above 0
        The square has sides of one.
    speed : float above 0
        Distance in a round.
    seed : int of at least 0

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    The edges that come back are those of the complete graph: ``union()`` holds agents^2 entries.

    References
    ----------
    .. [1] T. Camp, J. Boleng and V. Davies, "A survey of mobility models for ad hoc network research", Wireless
       Communications and Mobile Computing 2 (2002), the random direction model without pauses.

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

    meets_all = True  # every two agents meet again and again

    def __init__(self, agents: int, radius: float, speed: float, seed: int = 0) -> None:
        self.agents, self.seed = integer("agents", agents, 1), integer("seed", seed, 0)
        _checks.room(f"Mobile(agents={self.agents}, ...)", self.agents, each=100)
        self.radius, self.speed = _positive("radius", radius), _positive("speed", speed)
        drawn = stream(b"move", self.seed, 0).random((3, self.agents))
        self._start = drawn[:2].T.copy()
        angle = 2 * math.pi * drawn[2]
        self._step = self.speed * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def __repr__(self):
        return f"Mobile(agents={self.agents}, radius={self.radius}, speed={self.speed}, seed={self.seed})"

    def _settings(self):
        return self.agents, self.radius, self.speed, self.seed

    def positions(self, round: int) -> np.ndarray:
        """Where the agents are in a round: array (agents, 2) in [0, 1]."""
        # One coordinate, unfolded, has period two: there and back.
        path = np.mod(self._start + integer("round", round, 0, _LAST) * self._step, 2.0)
        return np.minimum(path, 2.0 - path)

    def _entries(self, positions):
        from scipy.spatial import cKDTree  # slow to import, and most networks stand still

        first, second = cKDTree(positions).query_pairs(self.radius, output_type="ndarray").T
        return entries(pairs_pattern(self.agents, first, second, diagonal=True))

    @property
    def static(self) -> bool:
        """Whether the radius is as long as the square's diagonal, so that all agents are neighbours at all times."""
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


def _positive(name, value):
    return _checks.real(name, value, "a finite number above 0", lambda number: 0 < number < math.inf)
