"""Sums over all agents along a breadth-first tree of a static undirected graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from consensus.communication.exchanges import Exchanges
from consensus.communication.flooding import Flooding
from consensus.communication.packed import Codec
from consensus.communication.plans import Plans
from consensus.privacy.fixed_point import SecureSums
from consensus.trees.levels import Levels, centre
from consensus.trees.masked_tree import MaskedTree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import Float, UInt64


class Tree:
    """A breadth-first tree from the centre of the graph: sums go up to the root, results come down.

    Solvers whose ``needs`` say ``tree=True`` use it as ``network.tree``. One sum for all agents, :meth:`reduce` and
    :meth:`broadcast`, takes two exchanges a level of the tree and 2 (A - 1) messages.

    Parameters
    ----------
    network : Exchanges
        The network of a block of agents, which counts the messages.

    Attributes
    ----------
    agents : int
        A, of the whole network.
    root : int
        The agent at the top: the centre of the graph, or of several the one with the least number.
    depth : int
        The root's eccentricity.
    parent : ndarray (A,)
        Each agent's neighbour on the way to the root; negative for the root.

    Raises
    ------
    ValueError
        If the graph of the first round is directed or not connected.

    Examples
    --------
    >>> import numpy as np, topologies
    >>> from consensus.engines import StackedNetwork
    >>> network = StackedNetwork(topologies.Static(topologies.path(5)), np.dtype(float))
    >>> tree = network.tree
    >>> tree.root, tree.depth, tree.parent[[0, 4]].tolist()
    (2, 2, [1, 3])
    >>> tree.broadcast(tree.reduce(np.arange(5.0)[:, None])).ravel().tolist()
    [10.0, 10.0, 10.0, 10.0, 10.0]
    >>> network.messages
    8
    """

    def __init__(self, network: Exchanges) -> None:
        self._network, self.agents = network, network.agents
        matrix = network.schedule.weights(network.schedule.key(0))
        links = sp.csr_array(abs(matrix) + sp.eye_array(self.agents))
        if ((links != 0) != (links.T != 0)).nnz:
            raise ValueError("a spanning tree needs an undirected, connected graph, and this one is directed")
        self.depth, self.root = centre(links)
        order, self.parent = breadth_first_order(links, self.root, directed=False)
        level = np.zeros(self.agents, int)
        for agent in order[1:]:
            level[agent] = level[self.parent[agent]] + 1
        levels = Levels(self.depth, self.parent, level)
        self._plans = Plans(levels, network.rows, np.dtype(float), network._prepare)
        self._masked: MaskedTree | None = None

    @property
    def rows(self) -> slice:
        """The agents of this block."""
        return self._network.rows

    @property
    def here(self) -> int | None:
        """The root's row in this block of agents; None if another process holds it."""
        rows = self.rows
        return self.root - rows.start if rows.start <= self.root < rows.stop else None

    def secured(self, sums: SecureSums | None, first: bool) -> Tree | MaskedTree:
        """Return the tree whose sums are masked, the same one in all rounds; with None the tree itself.

        Parameters
        ----------
        sums : SecureSums or None
            The settings.
        first : bool
            Whether it is the first round of the run, in which the exchange of keys is counted.

        Returns
        -------
        Tree or MaskedTree
            The tree.
        """
        if sums is None:
            return self
        if self._masked is None:
            self._masked = MaskedTree(self, sums, first)
        return self._masked

    def discover(self) -> None:
        """Count the exchanges in which agents find the tree, before the first sum.

        Every message carries a bitmask of the agents from whom its sender has received, directly or not. The first agent that
        has received from all is the root; the parent of an agent is the neighbour that first passed on the root's bit. This
        takes as many exchanges as the graph's diameter.
        """
        flooding = Flooding(self._network)
        self._network.count_exchanges(0, flooding.diameter(0), flooding.words)

    def reduce(self, rows: Float[np.ndarray, "agents n"], codec: Codec | None = None) -> Float[np.ndarray, "agents n"]:
        """Return every agent's sum over its subtree, in float64: the root's row is the sum over all agents.

        Parents add their children's sums in ascending order of the agents, so all engines give the same bits.

        Parameters
        ----------
        rows : ndarray (agents, n)
            Numbers to be sent.
        codec : Codec, optional
            Format of the messages between processes, and their sizes; by default eight bytes a number.

        Returns
        -------
        ndarray (agents, n)
            New rows.
        """
        return self._pass(range(self.depth), rows, codec)

    def broadcast(self, rows: Float[np.ndarray, "agents n"], codec: Codec | None = None) -> Float[np.ndarray, "agents n"]:
        """Return the root's row for every agent.

        Parameters
        ----------
        rows : ndarray (agents, n)
            Numbers to be sent.
        codec : Codec, optional
            As in :meth:`reduce`.

        Returns
        -------
        ndarray (agents, n)
            New rows.
        """
        return self._pass(range(self.depth, 2 * self.depth), rows, codec)

    def reduce_integers(self, rows: UInt64[np.ndarray, "agents n"], counted: bool = True) -> UInt64[np.ndarray, "agents n"]:
        """Return every agent's sum over its subtree, modulo 2^64.

        Parameters
        ----------
        rows : ndarray of uint64 (agents, n)
            Integers to be sent, eight bytes each.
        counted : bool
            Whether the messages are counted.

        Returns
        -------
        ndarray of uint64 (agents, n)
            New rows.
        """
        return self._pass_integers(range(self.depth), rows, counted)

    def broadcast_integers(self, rows: UInt64[np.ndarray, "agents n"], counted: bool = True) -> UInt64[np.ndarray, "agents n"]:
        """Return the root's row for every agent.

        Parameters
        ----------
        rows : ndarray of uint64 (agents, n)
            Integers to be sent.
        counted : bool
            As in :meth:`reduce_integers`.

        Returns
        -------
        ndarray of uint64 (agents, n)
            New rows.
        """
        return self._pass_integers(range(self.depth, 2 * self.depth), rows, counted)

    def _pass_integers(self, steps: Iterable[int], rows: np.ndarray, counted: bool) -> np.ndarray:
        for step in steps:
            plan, size = self._plans.at(step, "mix"), 8 * rows.shape[1]
            (whole,) = self._network._gather(plan, [rows])
            if counted:
                self._network._count_sizes(plan, rows.shape[1], plan.copies * size, (plan.both - plan.copies) * size)
            rows = plan.matrix.astype(np.uint64) @ whole
        return rows

    def _pass(self, steps: Iterable[int], rows: np.ndarray, codec: Codec | None) -> np.ndarray:
        if codec is not None:
            rows = rows + 0.0  # zeros without a sign, which a codec may drop
        for step in steps:
            plan = self._plans.at(step, "mix")
            if codec is None:  # the same length everywhere
                lengths = np.full(len(rows), 8 * rows.shape[1])
                received = (plan.both - plan.copies) * lengths
                (whole,) = self._network._gather(plan, [rows])
            else:
                lengths = codec.sizes(rows)
                whole, sizes = self._network._gather_encoded(plan, rows, lengths, codec)
                received = plan.times(sizes)[:, 0].astype(int) - plan.own * lengths
            self._network._count_sizes(plan, rows.shape[1], plan.copies * lengths, received)
            rows = plan.times(whole)
        return rows
