"""Messages as they would be without a compressor."""

from dataclasses import dataclass

import numpy as np

from consensus.communication import Packed
from consensus.packing import Whole
from consensus.solvers.compression.base import Compressor, rows_of


@dataclass(frozen=True)
class NoCompression(Compressor):
    """Every number as it is: what a compressed method does with it is to be compared with.

    Examples
    --------
    >>> from consensus.solvers import NoCompression
    >>> NoCompression().omega(1000)
    1.0
    """

    unbiased = True

    def omega(self, parameters: int) -> float:
        return 1.0

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        return Whole(rows_of(rows))
