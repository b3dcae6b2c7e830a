"""The network of a block of agents, which an engine completes."""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from consensus import _checks
from consensus.communication.exchanges import Exchanges
from consensus.communication.flooding import Flooding
from consensus.communication.messages import Messages
from consensus.communication.network import Network
from consensus.communication.packed import Packed, from_bytes, to_bytes
from consensus.communication.plans import Edges, Plan
from consensus.communication.runs import Runs


class BlockNetwork(Exchanges, Network):
    """A :class:`Network` for a block of agents: multiplies by the mixing matrix, and counts messages.

    An engine's subclass defines ``_gather``, which brings the rows of other agents. It may define ``_prepare``, for what is
    computed once for each mixing matrix; ``_received_each``, if it can bring the messages of :meth:`send_each` alone; and
    ``_gather_encoded``, if sums over the tree travel as bytes. Solvers must not call these.

    Parameters
    ----------
    schedule : schedule
        The mixing matrices.
    rows : slice
        The agents of the block.
    dtype : numpy.dtype
        Dtype of the rows that are mixed.
    strict : bool
        Whether to check in every exchange that each message runs along an edge of that round's graph.

    Attributes
    ----------
    exchanges : int
        Exchanges so far of every agent with its neighbours.
    messages : int
        Rows received so far by the agents of the block, one for each edge and direction; summed over blocks, the network's.
    floats : int
        Numbers in them; for :class:`Packed` rows, in the rows sent by the agents of the block.
    bytes : int
        Their size: the dtype's for each number, and that of packed rows.
    record : list of (sender, receiver, round)
        Every message, if ``strict``.

    Examples
    --------
    >>> import numpy as np, topologies
    >>> from consensus.communication import BlockNetwork
    >>> class Whole(BlockNetwork):  # a block of all agents: no row has to be brought
    ...     def _gather(self, plan, blocks):
    ...         return blocks
    >>> network = Whole(topologies.Static(topologies.ring(4)), slice(0, 4), np.dtype(float))
    >>> mixed, doubled = network.mix(0, np.arange(4.0)[:, None], np.ones((4, 2)))
    >>> mixed.round(6).ravel().tolist(), network.messages, network.floats
    ([1.333333, 1.0, 2.0, 1.666667], 8, 24)
    """

    def mix(self, round: int, *blocks: np.ndarray | Packed, beside: int = 0) -> tuple[np.ndarray, ...]:
        # The usual blocks at once: among few agents the checks of _exchange take as long as the product.
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
        return self._exchange(round, ("average",), blocks)

    def mix_and_average(
        self, round: int, mixed: np.ndarray | Packed, averaged: np.ndarray | Packed
    ) -> tuple[np.ndarray, np.ndarray]:
        first, second = self._exchange(round, ("mix", "average"), (mixed, averaged))
        return first, second

    def aggregate(
        self, round: int, rule: Callable[[Messages], np.ndarray], *blocks: np.ndarray | Packed, beside: int = 0
    ) -> tuple[np.ndarray, ...]:
        return self._exchange(round, ("mix",), blocks, beside, rule)

    def rounded(self, rows: np.ndarray, unit: np.ndarray) -> Packed:
        return Runs.nearest(rows, unit)

    def edges(self, round: int) -> Edges:
        return Edges.of(self.schedule.weights(self.schedule.key(round)), self.rows)

    def send_each(self, round: int, edges: Edges, messages: np.ndarray, beside: int = 0) -> np.ndarray:
        plan = self._plans.at(round, "mix")
        if self.strict:
            self._check_edges(round, plan)
        degrees, numbers = edges.there.sum(axis=1), messages.shape[2] + beside
        self._count_messages(int(degrees.sum()), numbers)
        self._traffic += 2 * degrees * (numbers * self.dtype.itemsize)  # each edge both ways
        received = self._received_each(plan, edges, messages.astype(self.dtype, copy=False))
        return np.where(edges.there[:, :, None], received, 0)

    def _received_each(self, plan: Plan, edges: Edges, messages: np.ndarray) -> np.ndarray:
        """Return the message over each of the ``edges``, anything at places without a neighbour; by default all rows travel."""
        (rows,) = self._gather(plan, [messages])
        here = np.arange(plan.agents)
        arcs = np.repeat(here, np.diff(plan.matrix.indptr)) * self.agents + plan.senders
        wanted = (here[:, None] * self.agents + edges.others)[edges.there]
        order = np.argsort(arcs)
        sources = np.zeros(edges.others.shape, np.intp)
        sources[edges.there] = plan.matrix.indices[order[np.searchsorted(arcs, wanted, sorter=order)]]
        received: np.ndarray = rows[sources, edges.places]
        return received

    @functools.cached_property
    def tree(self) -> Any:  # noqa: ANN401  # a Tree
        from consensus.trees.tree import Tree

        return Tree(self)

    @functools.cached_property
    def flooding(self) -> Flooding:
        return Flooding(self)

    def _exchange(
        self,
        round: int,
        kinds: tuple[str, ...],
        blocks: Sequence[np.ndarray | Packed],
        beside: int = 0,
        rule: Callable[[Messages], np.ndarray] | None = None,
    ) -> tuple[np.ndarray, ...]:
        if not blocks:
            raise TypeError(f"network.{kinds[0]}(round, *blocks) takes at least one block to send; got none")
        plan = self._plans.at(round, kinds[0])  # all kinds have the same edges in one round
        if self.strict:
            self._check_edges(round, plan)
        sent: list[np.ndarray] = []
        numbers, count = beside, plan.agents
        for block in blocks:
            if isinstance(block, np.ndarray) and block.ndim and len(block) == count:
                sent.append(block if block.dtype == self.dtype else block.astype(self.dtype))
                numbers += block.size // count
            else:
                sent.append(self._packed(plan, kinds[0], block))
        self._count_exchange(plan, numbers)
        gathered: Iterable[np.ndarray] = self._gather(plan, sent)
        if any(not isinstance(block, np.ndarray) for block in blocks):
            gathered = (self._received(plan, rows, block) for rows, block in zip(gathered, blocks))
        if rule is None:
            if len(kinds) == 1:
                return tuple([plan.times(rows) for rows in gathered])
            return tuple([self._plans.at(round, kind).times(rows) for kind, rows in zip(kinds, gathered)])
        new = []
        for block, rows, own in zip(blocks, gathered, sent):
            own = own if isinstance(block, np.ndarray) else self._unpacked(from_bytes(own, block))
            new.append(rule(Messages.of(plan, self.rows, rows, own)).reshape(own.shape))
        return tuple(new)

    def _packed(self, plan: Plan, kind: str, block: Any) -> np.ndarray:  # noqa: ANN401  users may send anything
        """Return the bytes of a ``block`` of packed rows; they are counted."""
        count = plan.agents
        arrays = block.arrays if hasattr(block, "unpack") else (block,)
        if not all(isinstance(array, np.ndarray) and array.shape[:1] == (count,) for array in arrays):
            got = ", ".join(f"shape {a.shape}" if isinstance(a, np.ndarray) else _checks.shown(a) for a in arrays)
            raise TypeError(
                f"network.{kind}(round, *blocks) takes arrays, or packed rows, with a row for each of the {count} agents held "
                f"here; got {got}"
            )
        sizes = plan.copies * block.bytes
        self._count_sent(int(plan.copies @ block.numbers), int(sizes.sum()))
        self._traffic += sizes
        return to_bytes(block)

    def _received(self, plan: Plan, whole: np.ndarray, block: np.ndarray | Packed) -> np.ndarray:
        """Return the rows to multiply, unpacked; the received bytes of packed rows are added to the traffic."""
        if isinstance(block, np.ndarray):
            return whole
        packed = from_bytes(whole, block)
        ends = np.append(0, np.cumsum(packed.bytes[plan.matrix.indices], dtype=np.int64))[plan.matrix.indptr]
        self._traffic += np.diff(ends) - plan.own * block.bytes
        return self._unpacked(packed)

    def _unpacked(self, packed: Packed) -> np.ndarray:
        return packed.unpack().astype(self.dtype, copy=False)
