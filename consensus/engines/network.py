"""What a block of agents sees of the network."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from consensus import _checks
from consensus.engines.counted import Counted
from consensus.engines.ends import Ends
from consensus.engines.heard import Heard
from consensus.engines.plans import Plan
from consensus.engines.spanning_tree import SpanningTree
from consensus.packing.base import from_bytes, to_bytes
from topologies.analysis import crossing

if TYPE_CHECKING:
    from consensus.packing import Packed


class Network(Counted, ABC):
    """Mixes the blocks of some agents with their neighbours', and counts what is sent.

    A solver is given it in ``step``: :meth:`mix`, :meth:`average`, :meth:`mix_and_average`, :meth:`aggregate` and :meth:`tell`
    exchange numbers, the other public members say what agents can know of their network.

    An engine derives its own from it, which says how the rows of other agents arrive: ``_gather`` and ``_all_rows``, and
    ``_prepare`` where something is made ready once for each mixing matrix. Solvers must not call these three.

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
        Numbers in them; of :class:`consensus.packing.Packed` rows in what the agents held here send.
    bytes : int
        What these take: the dtype's size each, but in packed rows as much as those say.
    record : list of (sender, receiver, round)
        Every message, if ``strict``.
    """

    def mix(self, round: int, *blocks: "np.ndarray | Packed", beside: int = 0) -> tuple[np.ndarray, ...]:
        """The rows held here of ``W[round] @ block``, for blocks (agents, ...) sent together in one exchange; new arrays.

        They are sent and mixed in the problem's dtype. A block may also be :class:`consensus.packing.Packed`: then that is what
        is sent, and counted, and the rows that it stands for are mixed. Every message carries ``beside`` more numbers, which
        are counted: what else the agents tell each other.
        """
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

    def average(self, round: int, *blocks: "np.ndarray | Packed") -> tuple[np.ndarray, ...]:
        """As :meth:`mix`, but every agent averages its own row and those it receives: row stochastic on any graph."""
        return self._exchange(round, ("average",), blocks)

    def mix_and_average(
        self, round: int, mixed: "np.ndarray | Packed", averaged: "np.ndarray | Packed"
    ) -> tuple[np.ndarray, np.ndarray]:
        """``mix(round, mixed)`` and ``average(round, averaged)`` of two blocks that travel together: one exchange."""
        return self._exchange(round, ("mix", "average"), (mixed, averaged))

    def aggregate(
        self, round: int, rule: Callable[[Heard], np.ndarray], *blocks: "np.ndarray | Packed", beside: int = 0
    ) -> tuple[np.ndarray, ...]:
        """As :meth:`mix`, but what an agent makes of what it hears is ``rule``'s to say, not a weighted sum.

        ``rule(heard)`` is called once for each block, with all that its agents hear, and returns their new rows (agents, P).
        What it is given it must neither change nor keep: the memory may be shared with other workers.
        """
        return self._exchange(round, ("mix",), blocks, beside, rule)

    def ends(self, round: int) -> Ends:
        """The ends of the edges that agents held here have in ``round``, for :meth:`tell`.

        ValueError if somebody hears another without being heard by that.
        """
        return Ends.of(self.schedule.weights(self.schedule.key(round)), self.rows)

    def tell(self, round: int, ends: Ends, said: np.ndarray, beside: int = 0) -> np.ndarray:
        """What agents hear when they say something else to each neighbour: one exchange.

        Parameters
        ----------
        round : int
        ends : Ends
            Those of ``round``.
        said : ndarray (agents, most, width)
            The numbers that an agent sends over each of its edges, in their order, in the problem's dtype. At places without a
            neighbour nothing is sent.
        beside : int
            How many more numbers a message carries, which are counted.

        Returns
        -------
        ndarray (agents, most, width)
            What came over the same edges; zero at places without a neighbour.
        """
        if self.strict:
            self._check_edges(round, self._plans.at(round, "mix"))
        messages, numbers = ends.there.sum(axis=1), said.shape[2] + beside
        self._count_messages(int(messages.sum()), numbers)
        self._traffic += 2 * messages * (numbers * self.dtype.itemsize)  # each edge both ways
        return np.where(ends.there[:, :, None], self._told(ends, said.astype(self.dtype, copy=False)), 0)

    def _told(self, ends: Ends, said: np.ndarray) -> np.ndarray:
        """What comes over each of the ``ends``, anything at places without a neighbour."""
        return self._all_rows(said)[ends.others, ends.places]

    @property
    def names(self) -> int:
        """Length of a bitmask over A agents, in numbers of the problem's dtype."""
        return -(-self.agents // (8 * self.dtype.itemsize))

    def crossing(self, round: int) -> int:
        """How many exchanges, the first in ``round``, it takes until every agent has heard from all others.

        On a static graph that is the diameter. Agents find out if every message carries a bitmask of those from whom its sender
        has heard, :attr:`names` numbers ``beside`` the rest. ValueError if some never hear from all.
        """
        return self._diameter if self.static else crossing(self.schedule, round)

    @functools.cached_property
    def _diameter(self) -> int:
        return crossing(self.schedule)

    def all_say(self, yes: np.ndarray) -> bool:
        """Whether ``yes`` (agents,) holds of all agents of the network, once the news has crossed it.

        The caller counts the numbers that carry the news, ``beside`` the exchanges.
        """
        return bool(self._all_rows(np.asarray(yes, self.dtype)).all())

    def least(self, round: int, exchanges: int, values: np.ndarray, beside: int = 0) -> float:
        """The least of all agents' ``values`` (agents,), as all know it after some exchanges, the first in ``round``.

        These are exchanges of their own, at least as many as :meth:`crossing` says: each message carries the least value that
        its sender knows of, and ``beside`` more numbers.
        """
        self.talk(round, exchanges, 1 + beside)
        return float(self._all_rows(values[:, None].astype(self.dtype, copy=False)).min())

    @functools.cached_property
    def spanning_tree(self) -> SpanningTree:
        """Sums over all agents along a breadth-first tree from the centre, for solvers whose ``needs`` say ``tree=True``."""
        return SpanningTree(self)

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
            new.append(rule(Heard.of(plan, self.rows, rows, own)).reshape(own.shape))
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

    @abstractmethod
    def _all_rows(self, rows: np.ndarray) -> np.ndarray:
        """The rows (A, ...) of all agents, from those of the agents held here. Not counted: it is no exchange of agents."""

    @abstractmethod
    def _gather(self, plan: Plan, blocks: Sequence[np.ndarray]) -> Iterable[np.ndarray]:
        """Each of the ``blocks`` with the rows that ``plan.matrix`` multiplies, neighbours' included, in the order of agents.

        All agents' rows, if :meth:`_prepare` is left as it is. Blocks are of any dtype: packed rows are bytes.
        """
