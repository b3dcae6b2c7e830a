"""The network of a block of agents, which an engine completes."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from consensus import _checks
from consensus.communication.edges import Edges
from consensus.communication.exchanges import Exchanges
from consensus.communication.flooding import Flooding
from consensus.communication.messages import Messages
from consensus.communication.packed import Packed, from_bytes, to_bytes
from consensus.communication.plans import Plan
from consensus.communication.tree import Tree


class BlockNetwork(Exchanges):
    """A :class:`Network` for a block of agents: it multiplies by the mixing matrix, and counts what is sent.

    An engine derives its own from it and writes one method, ``_gather``, which brings the rows of other agents;
    ``_prepare``, too, if something is made ready once for each mixing matrix; ``_received_each``, if it can bring the messages
    of :meth:`send_each` alone; ``_gather_encoded``, if sums over the tree travel as bytes. Solvers must not call these.

    Parameters
    ----------
    schedule : schedule
    rows : slice
        The agents held here.
    dtype : numpy.dtype
    strict : bool
        Check in every exchange that each message runs along an edge of that round's graph.

    Attributes
    ----------
    exchanges : int
        Calls of :meth:`mix` so far: each is one exchange of every agent with its neighbours.
    messages : int
        Rows received so far by the agents held here, one an edge and direction; over all blocks, the network's messages.
    floats : int
        Numbers in them; of :class:`Packed` rows in what the agents held here send.
    bytes : int
        What these take: the dtype's size each, but in packed rows as much as those say.
    record : list of (sender, receiver, round)
        Every message, if ``strict``.
    """

    def mix(self, round: int, *blocks: np.ndarray | Packed, beside: int = 0) -> tuple[np.ndarray, ...]:
        """As :meth:`Network.mix`."""
        # At once where blocks are as they mostly are: among few agents to look at all else takes as long as to mix.
        plan, numbers = self._plans.at(round, "mix"), beside
        rows: Any = blocks
        for block in rows:
            if type(block) is not np.ndarray or block.ndim != 2 or len(block) != plan.agents or block.dtype != self.dtype:
                return self._exchange(round, ("mix",), blocks, beside)
            numbers += block.shape[1]
        if not rows or self.strict:
            return self._exchange(round, ("mix",), blocks, beside)
        self._count_exchange(plan, numbers)
        if len(rows) == 1:
            (whole,) = self._gather(plan, rows)
            return (plan.times(whole),)
        return tuple(map(plan.times, self._gather(plan, rows)))

    def average(self, round: int, *blocks: np.ndarray | Packed) -> tuple[np.ndarray, ...]:
        """As :meth:`Network.average`: the matrix is row stochastic on any graph."""
        return self._exchange(round, ("average",), blocks)

    def mix_and_average(
        self, round: int, mixed: np.ndarray | Packed, averaged: np.ndarray | Packed
    ) -> tuple[np.ndarray, np.ndarray]:
        """As :meth:`Network.mix_and_average`."""
        return self._exchange(round, ("mix", "average"), (mixed, averaged))

    def aggregate(
        self, round: int, rule: Callable[[Messages], np.ndarray], *blocks: np.ndarray | Packed, beside: int = 0
    ) -> tuple[np.ndarray, ...]:
        """As :meth:`Network.aggregate`; the rule is called once for each block."""
        return self._exchange(round, ("mix",), blocks, beside, rule)

    def edges(self, round: int) -> Edges:
        """The edges of the agents held here in ``round``, for :meth:`send_each`.

        ValueError if the graph is directed: an agent then hears another that does not hear it.
        """
        return Edges.of(self.schedule.weights(self.schedule.key(round)), self.rows)

    def send_each(self, round: int, edges: Edges, messages: np.ndarray, beside: int = 0) -> np.ndarray:
        """As :meth:`Network.send_each`."""
        plan = self._plans.at(round, "mix")
        if self.strict:
            self._check_edges(round, plan)
        degrees, numbers = edges.there.sum(axis=1), messages.shape[2] + beside
        self._count_messages(int(degrees.sum()), numbers)
        self._traffic += 2 * degrees * (numbers * self.dtype.itemsize)  # each edge both ways
        arrived = self._received_each(plan, edges, messages.astype(self.dtype, copy=False))
        return np.where(edges.there[:, :, None], arrived, 0)

    def _received_each(self, plan: Plan, edges: Edges, messages: np.ndarray) -> np.ndarray:
        """What arrives over each of the ``edges``, anything at places without a neighbour: by default all rows travel."""
        (rows,) = self._gather(plan, [messages])
        here = np.arange(plan.agents)
        arcs = np.repeat(here, np.diff(plan.matrix.indptr)) * self.agents + plan.senders
        wanted = (here[:, None] * self.agents + edges.others)[edges.there]
        order = np.argsort(arcs)
        sources = np.zeros(edges.others.shape, np.intp)
        sources[edges.there] = plan.matrix.indices[order[np.searchsorted(arcs, wanted, sorter=order)]]
        return rows[sources, edges.places]

    @functools.cached_property
    def tree(self) -> Tree:
        """As :attr:`Network.tree`."""
        return Tree(self)

    @functools.cached_property
    def flooding(self) -> Flooding:
        """As :attr:`Network.flooding`."""
        return Flooding(self)

    def _exchange(self, round, kinds, blocks, beside=0, rule=None):
        if not blocks:
            raise TypeError(f"network.{kinds[0]}(round, *blocks) takes at least one block to send; got none")
        plan = self._plans.at(round, kinds[0])  # of one round all have the same edges
        if self.strict:
            self._check_edges(round, plan)
        sent, numbers, packed, count = [], beside, False, plan.agents
        for block in blocks:
            if isinstance(block, np.ndarray) and block.ndim and len(block) == count:  # a row for each agent held here
                sent.append(block if block.dtype == self.dtype else block.astype(self.dtype))
                numbers += block.size // count
            else:
                sent.append(self._packed(plan, kinds[0], block))
                packed = True
        self._count_exchange(plan, numbers)
        gathered = self._gather(plan, sent)
        if packed:
            gathered = (self._received(plan, rows, block) for rows, block in zip(gathered, blocks))
        if rule is None:
            if len(kinds) == 1:
                return tuple([plan.times(rows) for rows in gathered])
            return tuple([self._plans.at(round, kind).times(rows) for kind, rows in zip(kinds, gathered)])
        new = []
        for block, rows, own in zip(blocks, gathered, sent):
            own = own if isinstance(block, np.ndarray) else self._rows(from_bytes(own, block))
            new.append(rule(Messages.of(plan, self.rows, rows, own)).reshape(own.shape))
        return tuple(new)

    def _packed(self, plan, kind, block):
        """The bytes that are sent of a ``block`` of packed rows; counted."""
        count = plan.agents
        arrays = block.arrays if hasattr(block, "unpack") else (block,)
        if not all(isinstance(array, np.ndarray) and array.shape[:1] == (count,) for array in arrays):
            got = ", ".join(f"shape {a.shape}" if isinstance(a, np.ndarray) else _checks.shown(a) for a in arrays)
            raise TypeError(
                f"network.{kind}(round, *blocks) takes arrays, or packed rows, with a row for each of the {count} agents held "
                f"here; got {got}"
            )
        sizes = plan.copies * block.bytes
        self._count(int(plan.copies @ block.numbers), int(sizes.sum()))
        self._traffic += sizes
        return to_bytes(block)

    def _received(self, plan, whole, block):
        """The rows to multiply, of the ``whole`` of what was sent of a ``block``; what agents receive of it is counted."""
        if isinstance(block, np.ndarray):
            return whole
        packed = from_bytes(whole, block)
        ends = np.append(0, np.cumsum(packed.bytes[plan.matrix.indices], dtype=np.int64))[plan.matrix.indptr]
        self._traffic += np.diff(ends) - plan.own * block.bytes
        return self._rows(packed)

    def _rows(self, packed):
        return packed.unpack().astype(self.dtype, copy=False)
