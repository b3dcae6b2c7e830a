"""The protocol of messages whose lengths differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, Int, UInt8


class Codec(Protocol):
    """A format of messages for sums over a tree: rows of float64 to bytes, and back to the last bit.

    Zeros have no sign: -0.0 may be decoded as 0.0.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import IntegerRows
    >>> codec, row = IntegerRows(3), np.array([3.0, 0.0, -70000.0])
    >>> message = np.frombuffer(codec.encode(row), np.uint8)
    >>> codec.decode(message, 3)[0].tolist(), len(message) < row.nbytes, len(message) <= codec.most(3)
    ([3.0, 0.0, -70000.0], True, True)
    """

    def sizes(self, rows: Float[np.ndarray, "agents n"]) -> Int[np.ndarray, " agents"]:
        """Return the counted bytes of each row's message.

        Parameters
        ----------
        rows : ndarray (agents, n)
            Numbers to be sent.

        Returns
        -------
        ndarray of int (agents,)
            Sizes.
        """

    def encode(self, row: Float[np.ndarray, " n"]) -> bytes:
        """Return the message of a row.

        Parameters
        ----------
        row : ndarray (n,)
            Numbers to be sent.

        Returns
        -------
        bytes
            The message.
        """

    def decode(self, message: UInt8[np.ndarray, " size"], columns: int) -> tuple[Float[np.ndarray, " columns"], int]:
        """Return the row at the beginning of a message, and the bytes that it takes there.

        Parameters
        ----------
        message : ndarray of uint8
            Other rows or unused bytes may follow.
        columns : int
            Length of the row.

        Returns
        -------
        tuple of ndarray (columns,) and int
            The row, and the size of its message.
        """

    def most(self, columns: int) -> int:
        """Return the largest size of a message.

        Parameters
        ----------
        columns : int
            Length of the row.

        Returns
        -------
        int
            In bytes.
        """
