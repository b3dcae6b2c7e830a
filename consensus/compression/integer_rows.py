"""Rows of a few numbers and of vectors of integers, as bytes: the messages of solvers that sum over a tree."""

from dataclasses import dataclass

import numpy as np

from consensus.communication import Codec
from consensus.communication.runs import packed_bytes
from consensus.compression.packing import length, longest, pack, unpack


@dataclass(frozen=True)
class IntegerRows(Codec):
    """Writes rows of ``small``, then ``powers``, then ``floats`` numbers, then vectors of integers in few bits.

    Each vector is written by itself, as ``pack`` of ``consensus.compression.packing`` does.

    Parameters
    ----------
    parameters : int
        P, the length of a vector. A row holds as many vectors as fit.
    small : int
        Integers from -128 to 127, a byte each.
    powers : int
        Powers of two: two bytes each, for the exponent.
    floats : int
        Numbers in float64, eight bytes each.
    unit : float, optional
        The unit of the integers, a power of two that all agents know. Messages begin with its exponent, two bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import IntegerRows
    >>> codec, row = IntegerRows(4, powers=1, floats=1), np.array([0.25, 0.1, 5.0, -3.0, 0.0, 1.0])
    >>> message = codec.encode(row)
    >>> len(message), codec.sizes(row[None]).tolist()
    (13, [13])
    >>> codec.decode(np.frombuffer(message, np.uint8), 6)[0].tolist()
    [0.25, 0.1, 5.0, -3.0, 0.0, 1.0]
    """

    parameters: int
    small: int = 0
    powers: int = 0
    floats: int = 0
    unit: float | None = None

    def sizes(self, rows: np.ndarray) -> np.ndarray:
        codes = rows[:, self._numbers :].reshape(-1, self.parameters)
        vectors = self._vectors(rows.shape[1])
        sizes: np.ndarray = self._head + packed_bytes(codes).reshape(len(rows), vectors).sum(axis=1)
        return sizes

    def encode(self, row: np.ndarray) -> bytes:
        small, powers, floats, codes = np.split(row, np.cumsum([self.small, self.powers, self.floats]))
        units = powers if self.unit is None else np.array([self.unit])
        numbers = small.astype("i1"), (np.frexp(units)[1] - 1).astype("<i2"), floats.astype("<f8")
        return b"".join([part.tobytes() for part in numbers] + [pack(vector) for vector in codes.reshape(-1, self.parameters)])

    def decode(self, message: np.ndarray, columns: int) -> tuple[np.ndarray, int]:
        row, end, start = np.empty(columns), self._head, self._numbers
        after_small = self.small + self.powers
        row[: self.small] = message[: self.small].view("i1")
        if self.unit is None:
            row[self.small : after_small] = np.ldexp(1.0, message[self.small : self.small + 2 * self.powers].view("<i2"))
        row[after_small:start] = message[end - 8 * self.floats : end].view("<f8")
        for vector in row[start:].reshape(-1, self.parameters):
            vector[:] = unpack(message[end:], self.parameters)
            end += length(message[end:], self.parameters)
        return row, end

    def most(self, columns: int) -> int:
        return self._head + self._vectors(columns) * longest(self.parameters)

    def _vectors(self, columns: int) -> int:
        return (columns - self._numbers) // self.parameters

    @property
    def _numbers(self) -> int:
        return self.small + self.powers + self.floats

    @property
    def _head(self) -> int:
        """Bytes before the vectors."""
        return self.small + 2 * (self.powers + (self.unit is not None)) + 8 * self.floats
