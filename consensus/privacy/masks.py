"""Masks of pairs of agents, which cancel in the sum over all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from consensus.privacy.keys import PairKeys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import UInt64


class Masks(PairKeys):
    """The masks of the ``agents`` that this process holds: uint64 that add up to zero modulo 2^64 over all agents.

    Each pair of agents has a key: see :class:`PairKeys`, whose :meth:`agree` comes first.

    Raises
    ------
    ImportError
        Without the extra ``secure``.
    """

    def __init__(self, agents: Iterable[int]) -> None:
        super().__init__(agents, "consensus-opt: masks of a pair of agents", "SecureSums")

    def drawn(self, number: int, count: int) -> UInt64[np.ndarray, "agents count"]:
        """Return ``count`` masks for each of these agents, in the sum with a ``number`` that no other has."""
        place = {agent: row for row, agent in enumerate(self.agents)}
        masks = np.zeros((len(place), count), np.uint64)
        for first, second in self.pairs:
            mask = self.words((first, second), number, count)
            if first in place:
                masks[place[first]] += mask
            if second in place:
                masks[place[second]] -= mask
        return masks
