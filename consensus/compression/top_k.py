"""The largest entries."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.communication.packed import PackedRows, check_dtype
from consensus.compression.base import rows_of
from consensus.compression.some_entries import SomeEntries


@dataclass(frozen=True)
class TopK(SomeEntries):
    """The k entries of a row that are largest in modulus; the others count as zero.

    ``|Q(x) - x|^2 <= (1 - k/P) |x|^2``. A message holds k values, and their places in at most ``2 + log2(P / k)`` bits each
    (:class:`Sparse`).

    Parameters
    ----------
    k : int or float
        Number of entries, at most P; or, as a float in (0, 1], a fraction of P: rounded, but at least one entry.

    Raises
    ------
    ValueError
        If ``k`` is out of range; when a run begins, if it is above P.

    References
    ----------
    Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018, Definition 2.1.

    Examples
    --------
    >>> from consensus.compression import TopK
    >>> TopK(0.1).omega(1000), TopK(5).omega(1000)
    (0.1, 0.005)
    """

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        return Sparse.largest(rows, self.entries(rows_of(rows).shape[1]))


@dataclass(frozen=True, eq=False)
class Sparse(PackedRows):
    """Rows of which a few entries are sent; the others count as zero.

    A message holds the values, and their columns as Elias and Fano write ascending numbers: the last
    ``l = floor(log2(P / most))`` bits of each, and the others in ``most + floor(P / 2^l)`` bits, of which entry i with column c
    sets number ``floor(c / 2^l) + i``. That is at most ``2 + log2(P / most)`` bits per entry.

    Parameters
    ----------
    values : ndarray (agents, most)
        Entries.
    indices : ndarray of int32 (agents, most)
        Their columns, all different in a row; -1 if a row has fewer entries than others.
    columns : int
        P.

    Raises
    ------
    ValueError, TypeError
        If shapes or dtypes are wrong, or an index is out of range.

    References
    ----------
    Elias, "Efficient storage and retrieval by content and address of static files", Journal of the ACM 21(2), 1974; Fano, "On
    the number of bits required to implement an associative memory", MIT Project MAC Memorandum 61, 1971.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import Sparse
    >>> rows = np.array([[3.0, -5.0, 1.0, 0.5], [0.0, 2.0, 4.0, -1.0]])
    >>> sparse = Sparse.largest(rows, 2)
    >>> sparse.unpack()
    array([[ 3., -5.,  0.,  0.],
           [ 0.,  2.,  4.,  0.]])
    >>> sparse.bytes
    array([17, 17])
    """

    values: np.ndarray
    indices: np.ndarray
    columns: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _checks.count("columns of Sparse", self.columns, most=np.iinfo(np.int32).max))
        values, indices = _checks.floats("values of Sparse", self.values), self.indices
        object.__setattr__(self, "values", values)
        check_dtype("indices of Sparse", indices, np.int32)
        if values.ndim != 2 or values.shape != indices.shape:
            raise ValueError(
                f"values and indices of Sparse must have one shape (agents, most); got {values.shape} and {indices.shape}"
            )
        if indices.size and not -1 <= indices.min() <= indices.max() < self.columns:
            raise ValueError(f"indices of Sparse must be in -1 .. {self.columns - 1}; got {indices.min()} .. {indices.max()}")

    @classmethod
    def largest(cls, rows: np.ndarray, k: int) -> Sparse:
        """Keep the k entries of each row that are largest in modulus.

        Parameters
        ----------
        rows : ndarray (agents, P)
            Rows of floats.
        k : int
            Number of entries, >= 1; all P are kept if there are no more than k.

        Returns
        -------
        Sparse
            The largest entries.
        """
        rows = rows_of(rows)
        rest = rows.shape[1] - min(_checks.count("k", k), rows.shape[1])
        indices = np.argpartition(np.abs(rows), rest, axis=1)[:, rest:]
        indices.sort(axis=1)
        return cls(np.take_along_axis(rows, indices, axis=1), indices.astype(np.int32), rows.shape[1])

    @functools.cached_property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Values in the order of their columns, and the bytes that hold the columns."""
        places = np.where(self.indices < 0, self.columns, self.indices)  # missing entries come last
        order = np.argsort(places, axis=1, kind="stable")
        return np.take_along_axis(self.values, order, axis=1), self._coded(np.take_along_axis(places, order, axis=1))

    @property
    def numbers(self) -> np.ndarray:
        return np.asarray(np.count_nonzero(self.indices >= 0, axis=1))

    @property
    def bytes(self) -> np.ndarray:
        return self.numbers * self.values.itemsize + -(-sum(self._bits) // 8)

    def of(self, *arrays: np.ndarray) -> Sparse:
        values, codes = arrays
        upper, lower = self._bits
        bits = np.unpackbits(codes, axis=1, count=upper + lower, bitorder="little")
        most, low = values.shape[1], self._low
        high = bits[:, :upper].nonzero()[1].reshape(len(values), most) - np.arange(most)
        places = (high << low) + bits[:, upper:].reshape(len(values), most, low) @ (1 << np.arange(low))
        return replace(self, values=values, indices=np.where(places < self.columns, places, -1).astype(np.int32))

    def unpack(self) -> np.ndarray:
        rows = np.zeros((len(self.values), self.columns), self.values.dtype)
        there = self.indices >= 0
        rows[there.nonzero()[0], self.indices[there]] = self.values[there]
        return rows

    def _coded(self, places: np.ndarray) -> np.ndarray:
        """Return ascending ``places`` (agents, most) from 0 to P as bytes (agents, n)."""
        agents, most = places.shape
        upper, lower = self._bits
        bits = np.zeros((agents, upper + lower), np.uint8)
        np.put_along_axis(bits, (places >> self._low) + np.arange(most), 1, axis=1)
        bits[:, upper:] = (places[:, :, None] >> np.arange(self._low) & 1).reshape(agents, lower)
        return np.packbits(bits, axis=1, bitorder="little")

    @property
    def _low(self) -> int:
        """Number of a column's last bits that are written as they are."""
        most: int = self.values.shape[1]
        return max(1, self.columns // max(1, most)).bit_length() - 1

    @property
    def _bits(self) -> tuple[int, int]:
        """Number of bits that hold the upper parts of a row's columns, and the lower parts."""
        most = self.values.shape[1]
        return (most + (self.columns >> self._low) if most else 0), most * self._low
