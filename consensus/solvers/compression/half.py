"""Half precision."""

from dataclasses import dataclass

import numpy as np

from consensus.communication import Packed
from consensus.packing import Halves
from consensus.solvers.compression.base import Compressor, rows_of


@dataclass(frozen=True)
class Half(Compressor):
    """Every number in half precision, two bytes, after the row was multiplied by a power of two that fits its largest.

    ``|Q(x) - x|^2 <= (2^-22 + 2^-78 P) |x|^2``: a number keeps eleven bits, one below 2^-28 of the row's largest fewer. A
    message has two bytes more, for the power.

    Examples
    --------
    >>> from consensus.solvers import Half
    >>> 1 - Half().omega(1000) < 1e-6
    True
    """

    def omega(self, parameters: int) -> float:
        return 1 - 2.0**-22 - parameters * 2.0**-78

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        return Halves.nearest(rows_of(rows))
