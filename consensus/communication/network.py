"""The network, as a solver sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from consensus.communication.flooding import Flooding
from consensus.communication.messages import Messages
from consensus.communication.packed import Packed
from consensus.communication.plans import Edges

if TYPE_CHECKING:
    from jaxtyping import Float

Rows: TypeAlias = "Float[np.ndarray, 'agents ...']"
Block: TypeAlias = "Float[np.ndarray, 'agents ...'] | Packed"


class Network(Protocol):
    """Exchanges between a block of agents and their neighbours, for :meth:`consensus.solvers.Solver.step`.

    A block holds a row for each agent, shape (agents, ...), which is sent and mixed in the problem's dtype. If a block is
    :class:`Packed`, its packed form is sent and counted, and the rows that it stands for are mixed. ``beside`` is the number
    of further numbers in every message: they are counted only, because the solver computes them itself.

    Attributes
    ----------
    rows : slice
        The agents of the block.
    dtype : numpy.dtype
        The problem's dtype.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import Needs, Solver
    >>> class State(NamedTuple):
    ...     round: int
    ...     w: np.ndarray
    >>> class Averaging(Solver):
    ...     needs = Needs()
    ...     def init(self, problem, w):
    ...         return State(0, w)
    ...     def step(self, problem, network, state):
    ...         (w,) = network.mix(state.round, state.w)
    ...         return State(state.round + 1, w)
    >>> problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)
    >>> result = consensus.solve(problem, topologies.ring(3), Averaging(), rounds=1, start=[[0.0], [3.0], [6.0]])
    >>> result.w.round(6).tolist()
    [[3.0], [3.0], [3.0]]
    """

    rows: slice
    dtype: np.dtype

    @property
    def agents(self) -> int:
        """A, the number of agents of the whole network."""

    @property
    def static(self) -> bool:
        """True if every round has the same mixing matrix."""

    @property
    def tree(self) -> Any:  # noqa: ANN401  # a Tree
        """Exact sums over all agents, for solvers whose ``needs`` say ``tree=True``."""

    @property
    def flooding(self) -> Flooding:
        """Minima over all agents, and decisions that all agents take together."""

    def mix(self, round: int, *blocks: Block, beside: int = 0) -> tuple[Rows, ...]:
        """Return ``W[round] @ block`` for each block, in one exchange.

        Parameters
        ----------
        round : int
            Number of the round.
        *blocks : ndarray (agents, ...) or Packed
            Rows to be sent.
        beside : int
            Further numbers in each message.

        Returns
        -------
        tuple of ndarray (agents, ...)
            New arrays, one for each block.
        """

    def average(self, round: int, *blocks: Block) -> tuple[Rows, ...]:
        """Return the mean over each agent's own row and those that it receives, whatever the weights, in one exchange.

        Parameters
        ----------
        round : int
            Number of the round.
        *blocks : ndarray (agents, ...) or Packed
            Rows to be sent.

        Returns
        -------
        tuple of ndarray (agents, ...)
            New arrays, one for each block.
        """

    def mix_and_average(self, round: int, mixed: Block, averaged: Block) -> tuple[Rows, Rows]:
        """Return ``mix`` of one block and ``average`` of another, in one exchange.

        Parameters
        ----------
        round : int
            Number of the round.
        mixed, averaged : ndarray (agents, ...) or Packed
            Rows to be sent.

        Returns
        -------
        tuple of ndarray (agents, ...) and ndarray (agents, ...)
            New arrays.
        """

    def aggregate(
        self, round: int, rule: Callable[[Messages], Float[np.ndarray, "agents P"]], *blocks: Block, beside: int = 0
    ) -> tuple[Rows, ...]:
        """Return a rule's aggregate of each block's messages, in one exchange.

        Parameters
        ----------
        round : int
            Number of the round.
        rule : callable
            ``rule(messages)`` is the aggregate (agents, P) of one block. It must neither change nor keep its argument, whose
            memory may be shared with other workers.
        *blocks : ndarray (agents, ...) or Packed
            Rows to be sent.
        beside : int
            Further numbers in each message.

        Returns
        -------
        tuple of ndarray (agents, ...)
            New arrays, one for each block.
        """

    def rounded(self, rows: Float[np.ndarray, "agents P"], unit: Float[np.ndarray, "agents parts"]) -> Packed:
        """Return rows as whole multiples of units, to be sent.

        Parameters
        ----------
        rows : ndarray (agents, P)
            Rows.
        unit : ndarray (agents, parts)
            Positive numbers.

        Returns
        -------
        Packed
            As :meth:`consensus.compression.Runs.nearest` returns them.
        """

    def edges(self, round: int) -> Edges:
        """Return the edges of the block, for :meth:`send_each`.

        Parameters
        ----------
        round : int
            Number of the round.

        Returns
        -------
        Edges
            Those of the block.

        Raises
        ------
        ValueError
            If the round's graph is directed.
        """

    def send_each(
        self, round: int, edges: Edges, messages: Float[np.ndarray, "agents most width"], beside: int = 0
    ) -> Float[np.ndarray, "agents most width"]:
        """Send a different message to each neighbour, in one exchange.

        Parameters
        ----------
        round : int
            Number of the round.
        edges : Edges
            Of ``round``.
        messages : ndarray (agents, most, width)
            The message over each edge, in the problem's dtype. Nothing is sent at places without a neighbour.
        beside : int
            Further numbers in each message.

        Returns
        -------
        ndarray (agents, most, width)
            The messages received over the same edges; zero at places without a neighbour.
        """
