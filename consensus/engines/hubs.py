"""Agents through whom sums over a graph that stands still are made."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, shortest_path

from consensus import kernels
from consensus._parallel import for_chunks
from consensus._rows import empty
from consensus.engines.trees import Tree

Rows: TypeAlias = Callable[[np.ndarray], np.ndarray]
Sent: TypeAlias = Callable[[np.ndarray, np.ndarray], None]


class Level(NamedTuple):
    """Agents that are as ``far`` from their hubs as one another.

    Fields: that; the ``agents``, in the order of their parents on the next level; where in them the children of each parent
    begin, and the last ones' end, in ``begins``, hubs being parents of themselves; the places of those who have children of
    their own, the ``inner`` ones.
    """

    far: int
    agents: np.ndarray
    begins: np.ndarray
    inner: np.ndarray


@dataclass(frozen=True, eq=False)
class Hubs:
    """Agents that add up what others near them have, and tell everyone.

    Sums go up from every agent to the hub next to it, each on the way adding its own. Then what each hub has goes to all other
    agents, along the tree of shortest ways from it. One hub, the graph's centre, takes the fewest messages, 2 (A - 1);
    if all are hubs, it takes the fewest exchanges, the diameter, and A (A - 1) messages.

    Fields: the ``hubs``; to whom an agent sends what it has, its ``parent`` (agents,), a hub's being itself; how ``far``
    (agents,) its hub is; how many ``exchanges`` there are; the graph's ``links`` as a sparse matrix.

    Examples
    --------
    >>> import topologies
    >>> from consensus.engines.hubs import Hubs
    >>> ring = topologies.metropolis(topologies.ring(30))
    >>> [len(Hubs.of(ring, exchanges).hubs) for exchanges in (15, 16, 18, 30)]
    [30, 10, 5, 1]
    """

    hubs: np.ndarray
    parent: np.ndarray
    far: np.ndarray
    exchanges: int
    links: sp.csr_array

    @classmethod
    def everyone(cls, matrix: sp.csr_array, exchanges: int) -> "Hubs":
        """All agents of a mixing matrix are hubs."""
        names = np.arange(matrix.shape[0])
        return cls(names, names, np.zeros_like(names), exchanges, sp.csr_array(matrix != 0))

    @classmethod
    def centre(cls, tree: Tree, matrix: sp.csr_array) -> "Hubs":
        """The centre is the only one, and everyone's way there is the ``tree``."""
        parent, far = tree.parent.copy(), np.zeros(len(tree.parent), int)
        parent[tree.order[0]] = tree.order[0]
        for agent in tree.order[1:].tolist():
            far[agent] = far[parent[agent]] + 1
        return cls(tree.order[:1], parent, far, 2 * tree.depth, sp.csr_array(matrix != 0))

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
        return cls(hubs, parent, far, int(far.max() + reach[hubs].max()), links)

    def messages(self, rows: slice) -> int:
        """How many the agents in ``rows`` send up to hubs, or hear from hubs."""
        mine = self.among(rows).sum()
        return (rows.stop - rows.start) * (1 + len(self.hubs)) - 2 * int(mine)

    def traffic(self, sizes: np.ndarray) -> np.ndarray:
        """How many bytes each agent sends and receives (agents,) if what it sends of a sum takes ``sizes`` (agents,)."""
        moved = np.where(self.parent == np.arange(len(sizes)), 0, sizes).astype(np.int64)  # up,
        received = np.zeros_like(moved)
        np.add.at(received, self.parent, moved)
        down = np.asarray(sizes, np.int64)[self.hubs]
        moved += received + down @ self.passed + down.sum()  # and down; nobody sends a hub what it has itself
        moved[self.hubs] -= down
        return moved

    @functools.cached_property
    def passed(self) -> np.ndarray:
        """To how many others each agent passes on what each hub has (hubs, agents): those it is the first to tell."""
        passed = np.zeros((len(self.hubs), len(self.parent)), np.int32)
        for hub, count in zip(self.hubs.tolist(), passed, strict=True):
            order, parent = breadth_first_order(self.links, hub, directed=False)
            np.add.at(count, parent[order[1:]], 1)
        return passed

    def among(self, rows: slice) -> np.ndarray:
        """Which of the agents in ``rows`` are hubs."""
        return np.isin(np.arange(rows.start, rows.stop), self.hubs)

    def add_up(self, rows: Rows, n: int, dtype: np.dtype, sent: Sent | None = None) -> np.ndarray:
        """What hubs have in the end, shape (hubs, n): the sums of what all agents have, ``rows(agents)``, a new array of some.

        ``sent(agents, sums)`` is told what each of them sends: its own and what came up to it. Several threads call these two.
        What agents send is added up while it is in a core's cache, and not kept.
        """
        above = np.empty((0, n), dtype)
        for level in self.levels:
            above = self._step(level, above, rows, sent)
        return above

    @functools.cached_property
    def levels(self) -> list[Level]:
        """All agents, the farthest from their hubs first, the hubs last."""
        levels, agents, begins, far = [], self.hubs, np.arange(len(self.hubs) + 1), 0
        while len(agents):
            place = np.zeros(len(self.parent), int)
            place[agents] = np.arange(len(agents))
            children = np.flatnonzero(self.far == far + 1)
            children = children[np.argsort(place[self.parent[children]], kind="stable")]
            inner, starts = np.unique(place[self.parent[children]], return_index=True)
            levels.append(Level(far, agents, begins, inner))
            agents, begins, far = children, np.append(starts, len(children)), far + 1
        return levels[::-1]

    def _step(self, level, below, rows, sent):
        """What a level's parents have of it, if its inner agents have (inner, n) of those ``below``."""
        children, parents, (_, n) = len(level.agents), len(level.begins) - 1, below.shape
        above = empty((parents, n), below.dtype)
        ones, places = np.ones(children, below.dtype), np.arange(children)

        def chunk(part):
            begins = level.begins[part.start : part.stop + 1]
            first, last = begins[0], begins[-1]
            sums, came = rows(level.agents[first:last]), slice(*np.searchsorted(level.inner, (first, last)))
            sums[level.inner[came] - first] += below[came]
            if sent is not None:
                sent(level.agents[first:last], sums)
            if level.far:
                kernels.mixed(sums, ones[first:last], places[: last - first], begins - first, out=above[part])
            else:
                above[part] = sums

        size = n * below.itemsize * children // parents
        for_chunks(chunk, parents, 4 * size, streamed=3 * size)
        return above


def _within(distance, candidates, radius):
    """Some of the ``candidates``, so that everyone is within ``radius`` of one; none where there are too few."""
    near, hubs = distance[candidates] <= radius, []
    left = np.ones(len(distance), bool)
    while near.any(axis=0).all() and left.any():
        new = int((near & left).sum(axis=1).argmax())
        hubs.append(candidates[new])
        left &= ~near[new]
    return np.sort(np.array(hubs, int))
