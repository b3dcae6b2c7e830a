"""The network of one peer."""

from __future__ import annotations

import numpy as np

from consensus.communication.flooding import Flooding
from consensus.engines.rank_engine import HaloNetwork


class PeerFlooding(Flooding):
    """Minima over all peers, along their spanning tree."""

    def __init__(self, network: PeerNetwork) -> None:
        super().__init__(network)
        self._ranks = network.ranks

    def _minimum(self, values: np.ndarray) -> float:
        rows = np.ascontiguousarray(values).astype(self._network.dtype, copy=False)
        return float(self._ranks.allgather_rows(rows, np.ones(self._ranks.size, np.int64)).min())


class PeerNetwork(HaloNetwork):
    """The network of one peer."""

    @property
    def flooding(self) -> PeerFlooding:  # it is cheap to make
        return PeerFlooding(self)
