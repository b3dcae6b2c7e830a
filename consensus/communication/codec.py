"""How rows are written as bytes, where messages differ in length."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Codec(Protocol):
    """The form in which a tree's sums travel: rows of float64 as bytes, and back to the last bit.

    Zeros have no sign: a codec may write -0.0 as 0.0.
    """

    def sizes(self, rows: np.ndarray) -> np.ndarray:
        """The bytes (agents,) of the messages with ``rows`` (agents, n), as they are counted."""

    def encode(self, row: np.ndarray) -> bytes:
        """The message with a ``row`` (n,)."""

    def decode(self, message: np.ndarray, columns: int) -> tuple[np.ndarray, int]:
        """The row (columns,) at the beginning of ``message``, an array of bytes, and how many bytes it takes there."""

    def most(self, columns: int) -> int:
        """The largest size of a message with a row of so many ``columns``."""
