"""Minima over all agents, by flooding the network."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from consensus.communication.exchanges import Exchanges
from consensus.communication.plans import Plans
from topologies.analysis import crossing

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


class Flooding:
    """Results that reach all agents when every message repeats its sender's knowledge: a minimum, or a decision.

    All blocks call the same methods at the same time.

    Parameters
    ----------
    network : Exchanges
        The network of a block of agents, which counts the exchanges.

    Examples
    --------
    >>> import numpy as np, topologies
    >>> from consensus.engines import StackedNetwork
    >>> flooding = StackedNetwork(topologies.Static(topologies.path(4)), np.dtype(float)).flooding
    >>> flooding.diameter(0), flooding.minimum(0, exchanges=3, values=np.array([5.0, 2.0, 8.0, 4.0]))
    (3, 2.0)
    >>> flooding.all(np.array([True, True, False, True]))
    False
    """

    def __init__(self, network: Exchanges) -> None:
        self._network = network
        self._plans = Plans(_Hub(network.agents), network.rows, network.dtype, network._prepare)

    @property
    def words(self) -> int:
        """Length of a bitmask over A agents, in numbers of the problem's dtype."""
        return -(-self._network.agents // (8 * self._network.dtype.itemsize))

    def diameter(self, round: int) -> int:
        """Return the number of exchanges after which every agent has received from all others, directly or not.

        On a static graph that is the diameter. Agents find it if every message carries a bitmask of the agents from whom its
        sender has received, :attr:`words` numbers.

        Parameters
        ----------
        round : int
            Round of the first exchange.

        Returns
        -------
        int
            Number of exchanges.

        Raises
        ------
        ValueError
            If some agents never receive from all others.
        """
        return self._diameter if self._network.static else crossing(self._network.schedule, round)

    @functools.cached_property
    def _diameter(self) -> int:
        return crossing(self._network.schedule)

    def minimum(self, round: int, exchanges: int, values: Float[np.ndarray, " agents"], beside: int = 0) -> float:
        """Return the minimum of all agents' values.

        Each message carries the least value that its sender has received.

        Parameters
        ----------
        round : int
            Round of the first exchange.
        exchanges : int
            At least :meth:`diameter`.
        values : ndarray (agents,)
            One of each agent of the block.
        beside : int
            Further numbers in each message.

        Returns
        -------
        float
            Minimum.
        """
        self._network.count_exchanges(round, exchanges, 1 + beside)
        return self._minimum(values)

    def all(self, yes: Bool[np.ndarray, " agents"]) -> bool:
        """Return whether something holds for all agents of the network.

        Nothing is counted: the solver counts the answers with the exchanges beside which they travel.

        Parameters
        ----------
        yes : ndarray of bool (agents,)
            Whether it holds for each agent of the block.

        Returns
        -------
        bool
            The same for all agents.
        """
        return bool(self._minimum(np.asarray(yes)))

    def _minimum(self, values: np.ndarray) -> float:
        up, down = self._plans.at(0, "mix"), self._plans.at(1, "mix")
        (rows,) = self._network._gather(up, [values[:, None].astype(self._network.dtype, copy=False)])
        least = np.minimum.reduceat(rows[up.matrix.indices], up.matrix.indptr[:-1], axis=0)
        (rows,) = self._network._gather(down, [least])
        return float(rows[down.matrix.indices[0], 0])


class _Hub:
    """Two matrices by which engines find the result of a flood: agent 0 receives from all agents, then all from it."""

    def __init__(self, agents: int) -> None:
        self.agents = agents

    def key(self, round: int) -> int:
        return round

    def weights(self, key: int) -> sp.csr_array:
        everyone, hub = np.arange(self.agents), np.zeros(self.agents, int)
        others = everyone[1:]
        rows, columns = (np.r_[hub, others], np.r_[everyone, others]) if key == 0 else (everyone, hub)
        return sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(self.agents, self.agents))
