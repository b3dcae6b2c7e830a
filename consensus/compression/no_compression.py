"""Messages without compression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.communication.packed import PackedRows
from consensus.compression.base import Compressor, rows_of


@dataclass(frozen=True)
class NoCompression(Compressor):
    """Every number as it is: the baseline of compressed methods.

    Examples
    --------
    >>> from consensus.compression import NoCompression
    >>> NoCompression().omega(1000)
    1.0
    """

    unbiased = True

    def omega(self, parameters: int) -> float:
        return 1.0

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        return Whole(rows_of(rows))


@dataclass(frozen=True, eq=False)
class Whole(PackedRows):
    """Rows of which every number is sent, in its own dtype.

    Parameters
    ----------
    rows : ndarray (agents, P)
        Rows of floats.

    Raises
    ------
    ValueError, TypeError
        If ``rows`` is no such array.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import Whole
    >>> Whole(np.ones((2, 5))).bytes
    array([40, 40])
    """

    rows: np.ndarray

    sent = ("rows",)

    def __post_init__(self) -> None:
        rows = _checks.floats("rows of Whole", self.rows)
        if rows.ndim != 2:
            raise ValueError(f"rows of Whole must have shape (agents, P); got {rows.shape}")
        object.__setattr__(self, "rows", rows)

    def unpack(self) -> np.ndarray:
        return self.rows
