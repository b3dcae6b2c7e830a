"""Sums over all agents along a breadth-first tree of a static undirected graph."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from consensus.engines.plans import Plans
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from consensus.engines.network import Network


class Tree(NamedTuple):
    """A breadth-first tree from the centre of a graph: of several centres, from the agent with the least number.

    Fields: the ``depth``, the centre's eccentricity; the agents in the ``order`` of their distance, the centre first; each
    agent's ``parent`` (agents,), its neighbour on the way to the centre.

    Examples
    --------
    >>> import topologies
    >>> from consensus.engines.spanning_tree import Tree
    >>> tree = Tree.of(topologies.metropolis(topologies.path(5)))
    >>> tree.depth, tree.order[0].item(), tree.parent[[0, 4]].tolist()
    (2, 2, [1, 3])
    """

    depth: int
    order: np.ndarray
    parent: np.ndarray

    @classmethod
    def of(cls, matrix: sp.csr_array) -> "Tree":
        """The tree of the graph of a mixing matrix; ValueError if that is directed or not connected."""
        agents = matrix.shape[0]
        links = sp.csr_array(abs(matrix) + sp.eye_array(agents))
        refused = "a spanning tree needs an undirected, connected graph, and this one is"
        if ((links != 0) != (links.T != 0)).nnz:
            raise ValueError(f"{refused} directed")
        bits = -(-agents // 64) * 64  # of whole words
        everything = np.packbits(np.arange(bits) < agents).view(np.uint64)
        heard, distance = np.packbits(np.eye(agents, bits, dtype=bool), axis=1).view(np.uint64), 0
        while not (done := (heard == everything).all(axis=1)).any():
            before, heard = heard, np.bitwise_or.reduceat(heard[links.indices], links.indptr[:-1])
            if (heard == before).all():
                raise ValueError(f"{refused} not connected")
            distance += 1
        order, parent = breadth_first_order(links, int(done.argmax()), directed=False)
        return cls(distance, order, parent)


class SpanningTree:
    """A breadth-first tree from the centre of the graph: sums go up to the root, results come down.

    A solver whose ``needs`` say ``tree=True`` gets it as ``network.spanning_tree``. One sum that all agents know,
    :meth:`reduce` and :meth:`broadcast`, takes two exchanges a level of the tree and 2 (A - 1) messages.

    Parameters
    ----------
    network : Network
        Of a block of agents. Its counts are those of the tree's messages, too.

    Attributes
    ----------
    agents : int
        A, of the whole network.
    root : int
        The agent at the top, a centre of the graph.
    depth : int
        The root's eccentricity.

    Raises
    ------
    ValueError
        If the graph of the first round is directed or not connected.
    """

    def __init__(self, network: "Network") -> None:
        tree = Tree.of(network.schedule.weights(network.schedule.key(0)))
        self._network, self.agents = network, network.agents
        self.root, self.depth = int(tree.order[0]), tree.depth
        self._plans = Plans(_Levels(network.schedule, tree), network.rows, np.dtype(float), network._prepare)

    @property
    def here(self) -> int | None:
        """The root's row in this block of agents; None if another process holds it."""
        rows = self._network.rows
        return self.root - rows.start if rows.start <= self.root < rows.stop else None

    def discover(self) -> None:
        """Count the exchanges in which agents find the tree, before the first sum.

        In each, every message says for all A agents whether its sender has heard from them, a bit each. The agent from whom all
        have heard first is the root; the neighbour from whom an agent first heard of it, the agent's parent. So it takes as
        many exchanges as the graph's diameter.
        """
        self._network.talk(0, self._network.crossing(0), self._network.names)

    def reduce(self, rows: np.ndarray, size: Callable[[np.ndarray], np.ndarray] | None = None) -> np.ndarray:
        """Every agent's sum over its subtree, in float64: the root's row is the sum over all agents.

        Parents add their children's sums in ascending order of the agents, so all engines give the same bits.

        Parameters
        ----------
        rows : ndarray (agents, n)
        size : callable, optional
            ``size(sums)`` gives the bytes (agents,) of messages with these sums (agents, n); by default eight a number.

        Returns
        -------
        ndarray (agents, n)
        """
        return self._pass(range(self.depth), rows, size)

    def broadcast(self, rows: np.ndarray, size: Callable[[np.ndarray], np.ndarray] | None = None) -> np.ndarray:
        """The root's row, for every agent: shape (agents, n). Parameters are those of :meth:`reduce`."""
        return self._pass(range(self.depth, 2 * self.depth), rows, size)

    def _pass(self, steps, rows, size):
        for step in steps:
            plan = self._plans.at(step, "mix")
            lengths = np.full(len(rows), 8 * rows.shape[1]) if size is None else size(rows)
            whole, told = self._network._gather(plan, [rows, lengths[:, None].astype(float)])
            received = plan.times(told)[:, 0].astype(int) - plan.own * lengths
            self._network._count_sizes(plan, rows.shape[1], plan.copies * lengths, received)
            rows = plan.times(whole)
        return rows


class _Levels:
    """A matrix for each of the tree's exchanges: from the lowest level up to the root, then down again."""

    def __init__(self, schedule: ScheduleLike, tree: Tree) -> None:
        self.agents, self._depth, self._parent = schedule.agents, tree.depth, tree.parent
        self._level = np.zeros(self.agents, int)
        for agent in tree.order[1:]:
            self._level[agent] = self._level[tree.parent[agent]] + 1

    def key(self, round: int) -> int:
        return round

    def weights(self, key: int) -> sp.csr_array:
        """Up: the identity and, for each child of a level, an entry (parent, child). Down: a child's row is its parent's."""
        up, everyone = key < self._depth, np.arange(self.agents)
        among = self._level == (self._depth - key if up else key - self._depth + 1)
        if up:
            rows, columns = np.r_[everyone, self._parent[among]], np.r_[everyone, everyone[among]]
        else:
            rows, columns = everyone, np.where(among, self._parent, everyone)
        matrix = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(self.agents, self.agents))
        matrix.sort_indices()
        return matrix
