"""Minima over all agents, by flooding the network."""

import functools

import numpy as np
import scipy.sparse as sp

from consensus.communication.exchanges import Exchanges
from consensus.communication.plans import Plans
from topologies.analysis import crossing


class Flooding:
    """What all agents learn when every message repeats the sender's knowledge: a minimum, or a decision.

    Parameters
    ----------
    network : Exchanges
        Of a block of agents. Exchanges are counted there, and all blocks must call the same methods at the same time.
    """

    def __init__(self, network: Exchanges) -> None:
        self._network = network
        self._plans = Plans(_Hub(network.agents), network.rows, network.dtype, network._prepare)

    @property
    def words(self) -> int:
        """Length of a bitmask over A agents, in numbers of the problem's dtype."""
        return -(-self._network.agents // (8 * self._network.dtype.itemsize))

    def diameter(self, round: int) -> int:
        """How many exchanges, the first in ``round``, it takes until every agent has heard from all others.

        On a static graph that is the diameter. Agents find it out if every message carries a bitmask of the agents from whom
        its sender has heard, :attr:`words` numbers. ValueError if some agents never hear from all others.
        """
        return self._diameter if self._network.static else crossing(self._network.schedule, round)

    @functools.cached_property
    def _diameter(self) -> int:
        return crossing(self._network.schedule)

    def minimum(self, round: int, exchanges: int, values: np.ndarray, beside: int = 0) -> float:
        """The minimum of all agents' ``values`` (agents,), after ``exchanges`` of their own, the first in ``round``.

        It takes at least :meth:`diameter` exchanges. Each message carries the least value that its sender knows of, and
        ``beside`` more numbers.
        """
        self._network.count_exchanges(round, exchanges, 1 + beside)
        return self._minimum(values)

    def all(self, yes: np.ndarray) -> bool:
        """Whether ``yes`` (agents,) holds for all agents of the network.

        Not counted: the agents' answers travel ``beside`` earlier exchanges, where the solver counts them.
        """
        return bool(self._minimum(np.asarray(yes)))

    def _minimum(self, values):
        up, down = self._plans.at(0, "mix"), self._plans.at(1, "mix")
        (rows,) = self._network._gather(up, [values[:, None].astype(self._network.dtype, copy=False)])
        least = np.minimum.reduceat(rows[up.matrix.indices], up.matrix.indptr[:-1], axis=0)
        (rows,) = self._network._gather(down, [least])
        return float(rows[down.matrix.indices[0], 0])


class _Hub:
    """Two matrices by which engines find what a flood finds: agent 0 receives from all agents, then all receive from it."""

    def __init__(self, agents: int) -> None:
        self.agents = agents

    def key(self, round: int) -> int:
        return round

    def weights(self, key: int) -> sp.csr_array:
        everyone, hub = np.arange(self.agents), np.zeros(self.agents, int)
        others = everyone[1:]
        rows, columns = (np.r_[hub, others], np.r_[everyone, others]) if key == 0 else (everyone, hub)
        return sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(self.agents, self.agents))
