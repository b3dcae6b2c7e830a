"""Rows of numbers in fewer bytes: what agents may send instead of arrays, by ``network.mix``."""

from consensus.packing.drawn import Drawn
from consensus.packing.factors import Factors
from consensus.packing.halves import Halves
from consensus.packing.quantised import Quantised
from consensus.packing.runs import Runs
from consensus.packing.sparse import Sparse
from consensus.packing.whole import Whole

__all__ = ["Drawn", "Factors", "Halves", "Quantised", "Runs", "Sparse", "Whole"]
