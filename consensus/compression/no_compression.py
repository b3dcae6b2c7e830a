"""Messages as they would be without a compressor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.compression.base import Compressor, rows_of


@dataclass(frozen=True)
class NoCompression(Compressor):
    """Every number as it is: what a compressed method does with it is to be compared with.

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
class Whole:
    """Rows of which every number is sent, in their own dtype.

    Parameters
    ----------
    rows : ndarray (agents, P)

    Raises
    ------
    ValueError, TypeError
        If they are no such array.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import Whole
    >>> Whole(np.ones((2, 5))).bytes
    array([40, 40])
    """

    rows: np.ndarray

    def __post_init__(self) -> None:
        rows = _checks.floats("rows of Whole", self.rows)
        if rows.ndim != 2:
            raise ValueError(f"rows of Whole must have shape (agents, P); got {rows.shape}")
        object.__setattr__(self, "rows", rows)

    @property
    def arrays(self) -> tuple[np.ndarray]:
        """The rows, as they are sent."""
        return (self.rows,)

    @property
    def numbers(self) -> np.ndarray:
        """P for every row (agents,)."""
        return np.full(len(self.rows), self.rows.shape[1])

    @property
    def bytes(self) -> np.ndarray:
        """Those of P numbers (agents,)."""
        return self.numbers * self.rows.itemsize

    def of(self, rows: np.ndarray) -> Whole:
        """These rows."""
        return Whole(rows)

    def unpack(self) -> np.ndarray:
        """The rows (agents, P)."""
        return self.rows
