"""The network of agents on several ranks: messages between agents become messages between their ranks."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from consensus.communication.block import BlockNetwork
from consensus.communication.codec import Codec
from consensus.communication.edges import Edges
from consensus.communication.plans import Plan
from consensus.engines.ranks import Ranks
from consensus.engines.transport import MIXED, UNEVEN, Pairs
from topologies.schedules import ScheduleLike


class Halo(NamedTuple):
    """The rows that ranks exchange for one mixing matrix: ``below`` are received from lower ranks, ``total`` in all.

    ``sends`` has the indices of own rows for each receiving rank, ``receives`` for each sending rank its part of the received
    rows.
    """

    sends: list[tuple[int, np.ndarray]]
    receives: list[tuple[int, slice]]
    below: int
    total: int


class HaloNetwork(BlockNetwork):
    """A network of messages between ranks: a row goes once to each rank that needs it, however many edges need it.

    Every rank computes the plan from the schedule, without negotiation. Rows keep the order of agents, so that sums have the
    same bits as on every other engine.
    """

    def __init__(
        self, schedule: ScheduleLike, rows: slice, dtype: np.dtype, strict: bool, ranks: Ranks, blocks: list[slice]
    ) -> None:
        super().__init__(schedule, rows, dtype, strict)
        self.ranks, self.me, self.bytes_between_hosts = ranks, ranks.me, 0
        self.counts_of_ranks = np.array([block.stop - block.start for block in blocks])
        self.owner = np.repeat(np.arange(len(blocks)), self.counts_of_ranks)

    @property
    def counts(self) -> dict[str, int]:
        return super().counts | ({"bytes_between_hosts": self.bytes_between_hosts} if self.ranks.elsewhere else {})

    def _transfer(self, receives: Pairs, sends: Pairs, kind: int = MIXED) -> None:
        """Exchange arrays with other ranks, and count what goes to other machines."""
        elsewhere = self.ranks.elsewhere
        if elsewhere:
            self.bytes_between_hosts += sum(rows.nbytes for rank, rows in sends if rank in elsewhere)
        self.ranks.exchange(receives, sends, kind)

    def _prepare(self, whole: sp.csr_array, matrix: sp.csr_array) -> tuple[sp.csr_array, Halo]:
        first, count = self.rows.start, self.rows.stop - self.rows.start
        entries = whole.tocoo()
        to, source = self.owner[entries.row], self.owner[entries.col]
        out = (source == self.me) & (to != self.me)
        sends = np.unique(to[out] * np.int64(self.agents) + entries.col[out])  # by rank, then by agent; each once
        ranks, rows = np.divmod(sends, self.agents)
        needed = np.unique(entries.col[(to == self.me) & (source != self.me)])
        below = int(np.searchsorted(needed, first))
        order = np.concatenate([needed[:below], np.arange(first, first + count), needed[below:]])
        local = sp.csr_array((matrix.data, np.searchsorted(order, matrix.indices), matrix.indptr), shape=(count, len(order)))
        owners = self.owner[needed]
        halo = Halo(
            sends=[(int(rank), rows[ranks == rank] - first) for rank in np.unique(ranks)],
            receives=[(int(r), slice(*np.searchsorted(owners, (r, r + 1)))) for r in np.unique(owners)],
            below=below,
            total=len(needed),
        )
        return local, halo

    def _gather(self, plan: Plan, blocks: Sequence[np.ndarray]) -> list[np.ndarray]:
        halo, own = plan.extra, len(blocks[0])
        dtypes = {block.dtype for block in blocks}
        sent = dtypes.pop() if len(dtypes) == 1 else np.uint8  # arrays beside packed rows go as bytes
        flat = [np.ascontiguousarray(block).reshape(own, -1).view(sent) for block in blocks]
        joined = flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)
        received = np.empty((halo.total, joined.shape[1]), joined.dtype)
        receives = [(rank, received[part]) for rank, part in halo.receives]
        self._transfer(receives, [(rank, joined[rows]) for rank, rows in halo.sends])
        wholes, start = [], 0
        for block, columns in zip(blocks, flat, strict=True):
            end = start + columns.shape[1]
            parts = (received[: halo.below, start:end], columns, received[halo.below :, start:end])
            wholes.append(np.concatenate(parts).view(block.dtype).reshape(-1, *block.shape[1:]))
            start = end
        return wholes

    def _gather_encoded(self, plan: Plan, rows: np.ndarray, lengths: np.ndarray, codec: Codec) -> tuple[np.ndarray, np.ndarray]:
        """Send the rows for another rank in the bytes of ``codec``, as one message."""
        halo, columns = plan.extra, rows.shape[1]
        messages = {row: codec.encode(rows[row]) for row in {row for _, some in halo.sends for row in some.tolist()}}
        sends = [(r, np.frombuffer(b"".join(messages[row] for row in some.tolist()), np.uint8)) for r, some in halo.sends]
        most = codec.most(columns)
        arrived = [(rank, np.empty((part.stop - part.start) * most, np.uint8)) for rank, part in halo.receives]
        self._transfer(arrived, sends, UNEVEN)
        received = np.empty((halo.total, columns))
        for (_, part), (_, message) in zip(halo.receives, arrived, strict=True):
            end = 0
            for row in range(part.start, part.stop):
                received[row], size = codec.decode(message[end:], columns)
                end += size
        sizes = codec.sizes(received)
        below = halo.below
        whole = np.concatenate([received[:below], rows, received[below:]])
        return whole, np.concatenate([sizes[:below], lengths, sizes[below:]])[:, None].astype(float)

    def _received_each(self, plan: Plan, edges: Edges, messages: np.ndarray) -> np.ndarray:
        """Send messages for agents of another rank to that rank alone, in the order of their senders and places."""
        agents, places = edges.there.nonzero()
        others, back = edges.others[agents, places], edges.places[agents, places]
        arrived, owners = np.zeros_like(messages), self.owner[others]
        here = owners == self.me
        arrived[agents[here], places[here]] = messages[others[here] - self.rows.start, back[here]]
        # Messages arrive in the order of the other ends: agents first, then places.
        ranks = {int(rank): np.flatnonzero(owners == rank) for rank in np.unique(owners[~here])}
        arrivals = {rank: some[np.lexsort((back[some], others[some]))] for rank, some in ranks.items()}
        buffers = {rank: np.empty((len(some), messages.shape[2]), messages.dtype) for rank, some in arrivals.items()}
        sends = [(rank, messages[agents[some], places[some]]) for rank, some in ranks.items()]
        self._transfer(list(buffers.items()), sends)
        for rank, some in arrivals.items():
            arrived[agents[some], places[some]] = buffers[rank]
        return arrived
