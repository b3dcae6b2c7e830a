"""The network, as a solver sees it."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from consensus.communication.edges import Edges
from consensus.communication.flooding import Flooding
from consensus.communication.messages import Messages
from consensus.communication.packed import Packed
from consensus.communication.tree import Tree


class Network(Protocol):
    """What :meth:`consensus.solvers.Solver.step` is given: the way from a block of agents to their neighbours.

    A block is a row for each agent held here, shape (agents, ...), sent and mixed in the problem's dtype. A block may also
    be :class:`Packed`: then its packed form is sent and counted, and the rows that it stands for are mixed. ``beside`` is how
    many more numbers every message carries; they are counted, and the solver works out what they say.
    """

    @property
    def agents(self) -> int:
        """A, the number of agents of the whole network."""

    @property
    def rows(self) -> slice:
        """The agents held here."""

    @property
    def dtype(self) -> np.dtype:
        """The problem's dtype."""

    @property
    def static(self) -> bool:
        """Whether every round has the same mixing matrix."""

    @property
    def tree(self) -> Tree:
        """Exact sums over all agents, for solvers whose ``needs`` say ``tree=True``."""

    @property
    def flooding(self) -> Flooding:
        """Minima over all agents and decisions that all agents take together."""

    def mix(self, round: int, *blocks: np.ndarray | Packed, beside: int = 0) -> tuple[np.ndarray, ...]:
        """``W[round] @ block`` for each block, in one exchange; new arrays."""

    def average(self, round: int, *blocks: np.ndarray | Packed) -> tuple[np.ndarray, ...]:
        """The mean over each agent's own row and those it receives, whatever the weights, in one exchange."""

    def mix_and_average(
        self, round: int, mixed: np.ndarray | Packed, averaged: np.ndarray | Packed
    ) -> tuple[np.ndarray, np.ndarray]:
        """``mix(round, mixed)`` and ``average(round, averaged)`` in one exchange."""

    def aggregate(
        self, round: int, rule: Callable[[Messages], np.ndarray], *blocks: np.ndarray | Packed, beside: int = 0
    ) -> tuple[np.ndarray, ...]:
        """What ``rule(messages)`` makes of each block's messages, (agents, P), in one exchange.

        The rule must neither change nor keep its argument: the memory may be shared with other workers.
        """

    def edges(self, round: int) -> Edges:
        """The edges of the agents held here, for :meth:`send_each`; ValueError if the round's graph is directed."""

    def send_each(self, round: int, edges: Edges, messages: np.ndarray, beside: int = 0) -> np.ndarray:
        """Send a different message to each neighbour, in one exchange.

        Parameters
        ----------
        round : int
        edges : Edges
            Those of ``round``.
        messages : ndarray (agents, most, width)
            What each agent sends over each of its edges, in the problem's dtype. Nothing is sent at places without a neighbour.
        beside : int

        Returns
        -------
        ndarray (agents, most, width)
            What arrived over the same edges; zero at places without a neighbour.
        """
