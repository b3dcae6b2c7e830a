"""The rows that a block of agents exchanges with its neighbours, and their counts."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from consensus.communication.packed import Codec
from consensus.communication.plans import Plan, Plans
from topologies.schedules import ScheduleLike, is_static


class Exchanges(ABC):
    """Brings a block of agents its neighbours' rows, and counts messages: the base of :class:`BlockNetwork`."""

    def __init__(self, schedule: ScheduleLike, rows: slice, dtype: np.dtype, strict: bool = False) -> None:
        self.schedule, self.rows, self.dtype, self.strict = schedule, rows, np.dtype(dtype), strict
        self.exchanges = self.messages = self.floats = self.bytes = 0
        self.record: list[tuple[int, int, int]] = []
        self._traffic = np.zeros(rows.stop - rows.start, np.int64)
        self._plan: Plan | None = None  # the plan of the last exchange, and the numbers in messages not yet in the traffic
        self._numbers = 0
        self._plans = Plans(schedule, rows, self.dtype, self._prepare)

    @property
    def counts(self) -> dict[str, int]:
        """The counts so far, for the history: exchanges, messages, floats and bytes."""
        return {"exchanges": self.exchanges, "messages": self.messages, "floats": self.floats, "bytes": self.bytes}

    @property
    def traffic(self) -> np.ndarray:
        """The bytes (agents,) that each agent of the block sent and received. Over all agents they sum to 2 ``bytes``."""
        self._settle()
        return self._traffic

    def per_edge(self) -> dict[tuple[int, int], int]:
        """Return the number of messages on each edge (sender, receiver) of a ``strict`` network."""
        return dict(Counter((sender, receiver) for sender, receiver, _ in self.record))

    @property
    def agents(self) -> int:
        """A, the number of agents of the whole network."""
        return self.schedule.agents

    @property
    def static(self) -> bool:
        """True if every round has the same mixing matrix; agents know that from the start."""
        return is_static(self.schedule)

    def count_exchanges(self, round: int, exchanges: int, numbers: int) -> None:
        """Count ``exchanges``, the first in ``round``, with so many ``numbers`` in every message; nothing is sent."""
        for n in range(round, round + exchanges):
            plan = self._plans.at(n, "mix")
            if self.strict:
                self._check_edges(n, plan)
            self._count_exchange(plan, numbers)

    def _prepare(self, whole: sp.csr_array, matrix: sp.csr_array) -> tuple[sp.csr_array, Any]:
        """Return ``(matrix, extra)`` for a plan, from the ``whole`` mixing matrix (A, A) and the block's rows of it.

        A narrower ``matrix`` keeps its entries in their order.
        """
        return matrix, None

    @abstractmethod
    def _gather(self, plan: Plan, blocks: Sequence[np.ndarray]) -> Iterable[np.ndarray]:
        """Return each of the ``blocks`` with the rows that ``plan.matrix`` multiplies, in the order of agents.

        These are all agents' rows, unless :meth:`_prepare` narrows the matrix. Packed rows come as blocks of bytes.
        """

    def _gather_encoded(self, plan: Plan, rows: np.ndarray, lengths: np.ndarray, codec: Codec) -> Sequence[np.ndarray]:
        """Return ``rows`` as :meth:`_gather` does, and the size of each row's message (rows, 1), as floats.

        Engines that send messages send ``codec.encode`` of ``rows``; the sizes of these are ``lengths`` (agents,).
        """
        gathered = iter(self._gather(plan, [lengths[:, None].astype(float), rows]))
        sizes = next(gathered).copy()  # another worker may write over it as soon as all have the next block
        return next(gathered), sizes

    def _count_exchange(self, plan: Plan, numbers: int) -> None:
        """Count an exchange with so many numbers in each message, in the problem's dtype."""
        if plan is not self._plan:
            self._settle()
            self._plan = plan
        self._numbers += numbers
        self._count_messages(plan.messages, numbers)

    def _count_messages(self, messages: int, numbers: int) -> None:
        carried = messages * numbers
        self.exchanges += 1
        self.messages += messages
        self.floats += carried
        self.bytes += carried * self.dtype.itemsize

    def _count_sizes(self, plan: Plan, numbers: int, sent: np.ndarray, received: np.ndarray) -> None:
        """Count an exchange with so many numbers in each message, and the bytes ``sent`` and ``received`` (agents,)."""
        self._count_messages(plan.messages, 0)
        self._count_sent(int(plan.copies.sum()) * numbers, int(sent.sum()))
        self._traffic += sent + received

    def _settle(self) -> None:
        """Add the exchanges since the plan changed to the traffic."""
        if self._plan is not None and self._numbers:
            self._traffic += self._plan.both * (self._numbers * self.dtype.itemsize)
            self._numbers = 0

    def _count_sent(self, numbers: int, size: int) -> None:
        """Count numbers sent, of ``size`` bytes in all."""
        self.floats += numbers
        self.bytes += size

    def _check_edges(self, round: int, plan: Plan) -> None:
        graph: nx.Graph = self.schedule.graph(round)  # type: ignore[attr-defined]  # optional in schedules, needed here
        receivers = np.arange(self.rows.start, self.rows.stop)
        arcs = zip(np.repeat(receivers, np.diff(plan.matrix.indptr)).tolist(), plan.senders.tolist(), strict=True)
        for receiver, sender in arcs:
            if receiver == sender:
                continue
            if not graph.has_edge(sender, receiver):
                raise RuntimeError(f"in round {round} agent {sender} sent to agent {receiver}, which is no edge of the graph")
            self.record.append((sender, receiver, round))
