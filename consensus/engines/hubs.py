"""Agents through whom sums over a graph that stands still are made."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import shortest_path

from consensus.engines.trees import Tree


class Hubs(NamedTuple):
    """Agents that add up what others near them have, and tell everyone.

    Sums go up from every agent to the hub next to it, each on the way adding its own. Then what each hub has goes to all other
    agents, along the tree of shortest ways from it. One hub, the graph's centre, takes the fewest messages, 2 (A - 1);
    if all are hubs, it takes the fewest exchanges, the diameter, and A (A - 1) messages.

    Fields: the ``hubs``; to whom an agent sends what it has, its ``parent`` (agents,), a hub's being itself; how ``far``
    (agents,) its hub is; how many ``exchanges`` there are.

    Examples
    --------
    >>> import topologies
    >>> ring = topologies.metropolis(topologies.ring(30))
    >>> [len(Hubs.of(ring, exchanges).hubs) for exchanges in (15, 16, 18, 30)]
    [30, 10, 5, 1]
    """

    hubs: np.ndarray
    parent: np.ndarray
    far: np.ndarray
    exchanges: int

    @classmethod
    def everyone(cls, agents: int, exchanges: int) -> "Hubs":
        """All are hubs."""
        names = np.arange(agents)
        return cls(names, names, np.zeros_like(names), exchanges)

    @classmethod
    def centre(cls, tree: Tree) -> "Hubs":
        """The centre is the only one, and everyone's way there is the ``tree``."""
        parent, far = tree.parent.copy(), np.zeros(len(tree.parent), int)
        parent[tree.order[0]] = tree.order[0]
        for agent in tree.order[1:].tolist():
            far[agent] = far[parent[agent]] + 1
        return cls(tree.order[:1], parent, far, 2 * tree.depth)

    @classmethod
    def of(cls, matrix: sp.csr_array, exchanges: int) -> "Hubs":
        """Few that take at most so many ``exchanges``, at least the diameter, on the connected graph of a mixing matrix.

        For each radius in turn those who can tell all in the time left are hubs, the one with most agents within the radius
        first, until all agents are within that of a hub; the fewest count.
        """
        links = sp.csr_array(matrix != 0)
        distance = shortest_path(links, directed=False, unweighted=True).astype(int)
        reach = distance.max(axis=1)
        radii = range(exchanges - int(reach.min()), -1, -1)
        found = [_within(distance, np.flatnonzero(reach <= exchanges - radius), radius) for radius in radii]
        hubs = min((hubs for hubs in found if len(hubs)), key=len)
        next_hub, far = distance[:, hubs].argmin(axis=1), distance[:, hubs].min(axis=1)
        parent = np.arange(len(far))
        for agent in np.flatnonzero(far).tolist():
            others = links.indices[links.indptr[agent] : links.indptr[agent + 1]]
            nearer = (next_hub[others] == next_hub[agent]) & (far[others] < far[agent])
            parent[agent] = others[nearer].min()
        return cls(hubs, parent, far, int(far.max() + reach[hubs].max()))

    def messages(self, rows: slice) -> int:
        """How many the agents in ``rows`` send up to hubs, or hear from hubs."""
        mine = self.among(rows).sum()
        return (rows.stop - rows.start) * (1 + len(self.hubs)) - 2 * int(mine)

    def among(self, rows: slice) -> np.ndarray:
        """Which of the agents in ``rows`` are hubs."""
        return np.isin(np.arange(rows.start, rows.stop), self.hubs)

    def add_up(self, sums: np.ndarray) -> None:
        """Let the ``sums`` (agents, n) go up: each hub's row becomes what it has in the end."""
        for parents, starts, level in self.levels():
            ones = np.ones(len(level), sums.dtype)
            sums[parents] += sp.csr_array((ones, level, np.append(starts, len(level))), shape=(len(parents), len(sums))) @ sums

    def levels(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """All but the hubs, those as far from theirs as one another together, the farthest first.

        Of each such level the parents, where the children of each of them start, and the children.
        """
        levels = []
        for far in range(int(self.far.max()), 0, -1):
            level = np.flatnonzero(self.far == far)
            level = level[np.argsort(self.parent[level], kind="stable")]
            parents, starts = np.unique(self.parent[level], return_index=True)
            levels.append((parents, starts, level))
        return levels


def _within(distance, candidates, radius):
    """Some of the ``candidates``, so that everyone is within ``radius`` of one; none where there are too few."""
    near, hubs = distance[candidates] <= radius, []
    left = np.ones(len(distance), bool)
    while near.any(axis=0).all() and left.any():
        new = int((near & left).sum(axis=1).argmax())
        hubs.append(candidates[new])
        left &= ~near[new]
    return np.sort(np.array(hubs, int))
