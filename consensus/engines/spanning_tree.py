"""Sums over all agents along a breadth-first tree of a static undirected graph."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from consensus.engines.plans import Plans
from consensus.engines.trees import Tree
from topologies.schedules import ScheduleLike

if TYPE_CHECKING:
    from consensus.engines.network import Network


class SpanningTree:
    """A breadth-first tree from the centre of the graph: sums go up to the root, results come down.

    A solver whose ``needs`` say ``tree=True`` gets it as ``network.spanning_tree``. One sum that all agents know,
    :meth:`reduce` and :meth:`broadcast`, takes two exchanges a level of the tree and 2 (A - 1) messages.

    Parameters
    ----------
    network : Network
        Of a block of agents. Its counts are those of the tree's messages, too.
    tree : Tree

    Attributes
    ----------
    agents : int
        A, of the whole network.
    root : int
        The agent at the top, a centre of the graph.
    depth : int
        The root's eccentricity.
    """

    def __init__(self, network: "Network", tree: Tree) -> None:
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
            ``size(sums)`` gives the bytes (agents,) of the messages that carry these sums (agents, n). Eight a number by default.

        Returns
        -------
        ndarray (agents, n)
        """
        return self._pass("up", range(self.depth, 0, -1), rows, size)

    def broadcast(self, rows: np.ndarray, size: Callable[[np.ndarray], np.ndarray] | None = None) -> np.ndarray:
        """The root's row, for every agent: shape (agents, n). Parameters are those of :meth:`reduce`."""
        return self._pass("down", range(1, self.depth + 1), rows, size)

    def _pass(self, way, levels, rows, size):
        for level in levels:
            plan = self._plans.of((way, level), "mix")
            lengths = np.full(len(rows), 8 * rows.shape[1]) if size is None else size(rows)
            whole, told = self._network._gather(plan, [rows, lengths[:, None].astype(float)])
            received = plan.times(told)[:, 0].astype(int) - plan.own * lengths
            self._network._count_sizes(plan, rows.shape[1], plan.copies * lengths, received)
            rows = plan.times(whole)
        return rows


class _Levels:
    """One matrix for each level and way: from level d up to d - 1, or down to it."""

    def __init__(self, schedule: ScheduleLike, tree: Tree) -> None:
        self.agents = schedule.agents
        level = np.zeros(self.agents, int)
        for agent in tree.order[1:]:
            level[agent] = level[tree.parent[agent]] + 1
        self._parent, self._level = tree.parent, level

    def weights(self, key: tuple[str, int]) -> sp.csr_array:
        """Up: identity and an entry (parent, child) for each child of the level; down: a child's row is its parent's."""
        way, level = key
        everyone = np.arange(self.agents)
        children = everyone[self._level == level]
        if way == "up":
            rows, columns = np.r_[everyone, self._parent[children]], np.r_[everyone, children]
        else:
            rows, columns = everyone, np.where(self._level == level, self._parent, everyone)
        matrix = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(self.agents, self.agents))
        matrix.sort_indices()
        return matrix
