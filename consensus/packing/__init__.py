"""Rows of numbers in fewer bytes: what agents may send instead of arrays, by ``network.mix``."""

from consensus.packing.base import Packed
from consensus.packing.quantised import Quantised
from consensus.packing.sparse import Sparse

__all__ = ["Packed", "Quantised", "Sparse"]
