"""The largest entries."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.compression.base import Compressor, rows_of
from consensus.compression.counts import entries, some
from consensus.problems import BaseProblem


@dataclass(frozen=True)
class TopK(Compressor):
    """The k entries of a row that are largest in modulus; the others count as zero.

    ``|Q(x) - x|^2 <= (1 - k/P) |x|^2``. A message holds k values and their places, of at most
    ``2 + log2(P / k)`` bits each: see :class:`consensus.compression.Sparse`.

    Parameters
    ----------
    k : int or float
        A whole number of entries, at most P; or, as a float in (0, 1], a fraction of the P, rounded, at least one entry.

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

    k: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", some("k of TopK", self.k))

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        self.omega(problem.parameters)

    def omega(self, parameters: int) -> float:
        return entries("k of TopK", self.k, parameters) / parameters

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        rows = rows_of(rows)
        return Sparse.largest(rows, entries("k of TopK", self.k, rows.shape[1]))


@dataclass(frozen=True, eq=False)
class Sparse:
    """Rows of which a few entries are sent, and the others taken as zero.

    A message holds the values in the dtype of the rows, and their columns as Elias and Fano write ascending numbers: of each
    its last ``l = floor(log2(P / most))`` bits, and the others in a row of ``most + floor(P / 2^l)`` bits, where entry i with
    column c sets number ``floor(c / 2^l) + i``. That is at most ``2 + log2(P / most)`` bits an entry; where entries are few,
    half a bit more than the least that tells any ``most`` of P columns.

    Parameters
    ----------
    values : ndarray (agents, most)
    indices : ndarray of int32 (agents, most)
        Their columns, none twice in a row; -1 where a row has fewer entries than others.
    columns : int
        P.

    Raises
    ------
    ValueError, TypeError
        If the arrays do not belong together.

    References
    ----------
    Elias, "Efficient storage and retrieval by content and address of static files", Journal of the ACM 21(2), 1974; Fano, "On
    the number of bits required to implement an associative memory", MIT Project MAC Memorandum 61, 1971 (both from memory).

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
        _checks.count("columns of Sparse", self.columns, most=np.iinfo(np.int32).max)
        values, indices = _checks.floats("values of Sparse", self.values), self.indices
        object.__setattr__(self, "values", values)
        if not isinstance(indices, np.ndarray) or indices.dtype != np.int32:
            raise TypeError(f"indices of Sparse must be an array of int32; got {_checks.shown(indices)}")
        if values.ndim != 2 or values.shape != indices.shape:
            raise ValueError(
                f"values and indices of Sparse must have one shape (agents, most); got {values.shape} and {indices.shape}"
            )
        if indices.size and not -1 <= indices.min() <= indices.max() < self.columns:
            raise ValueError(f"indices of Sparse must be in -1 .. {self.columns - 1}; got {indices.min()} .. {indices.max()}")

    @classmethod
    def largest(cls, rows: np.ndarray, k: int) -> Sparse:
        """The k entries largest in modulus of each of the ``rows`` (agents, P); all P where there are no more than k."""
        rows = _checks.floats("rows", rows)
        if rows.ndim != 2:
            raise ValueError(f"rows must have shape (agents, P); got {rows.shape}")
        k = min(_checks.count("k", k), rows.shape[1])
        indices = np.argpartition(np.abs(rows), rows.shape[1] - k, axis=1)[:, rows.shape[1] - k :]
        indices.sort(axis=1)
        return cls(np.take_along_axis(rows, indices, axis=1), indices.astype(np.int32), rows.shape[1])

    @functools.cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Values in the order of their columns, and the bytes that hold these, as they are sent."""
        places = np.where(self.indices < 0, self.columns, self.indices)  # what is missing comes last
        order = np.argsort(places, axis=1, kind="stable")
        return np.take_along_axis(self.values, order, axis=1), self._coded(np.take_along_axis(places, order, axis=1))

    @property
    def numbers(self) -> np.ndarray:
        """How many values each row has (agents,)."""
        return np.count_nonzero(self.indices >= 0, axis=1)

    @property
    def bytes(self) -> np.ndarray:
        """Those of each row's values and columns (agents,)."""
        return self.numbers * self.values.itemsize + -(-sum(self._bits) // 8)

    def of(self, values: np.ndarray, codes: np.ndarray) -> Sparse:
        """Rows of as many columns with these entries."""
        upper, lower = self._bits
        bits = np.unpackbits(codes, axis=1, count=upper + lower, bitorder="little")
        most, low = values.shape[1], self._low
        high = bits[:, :upper].nonzero()[1].reshape(len(values), most) - np.arange(most)
        places = (high << low) + bits[:, upper:].reshape(len(values), most, low) @ (1 << np.arange(low))
        return replace(self, values=values, indices=np.where(places < self.columns, places, -1).astype(np.int32))

    def _coded(self, places):
        """Ascending ``places`` (agents, most) from 0 to P as bytes (agents, ...)."""
        agents, most = places.shape
        upper, lower = self._bits
        bits = np.zeros((agents, upper + lower), np.uint8)
        np.put_along_axis(bits, (places >> self._low) + np.arange(most), 1, axis=1)
        bits[:, upper:] = (places[:, :, None] >> np.arange(self._low) & 1).reshape(agents, lower)
        return np.packbits(bits, axis=1, bitorder="little")

    @property
    def _low(self):
        """How many of a column's last bits are written as they are."""
        return max(1, self.columns // max(1, self.values.shape[1])).bit_length() - 1

    @property
    def _bits(self):
        """How many bits hold the upper parts of a row's columns, and how many the lower."""
        most = self.values.shape[1]
        return (most + (self.columns >> self._low) if most else 0), most * self._low

    def unpack(self) -> np.ndarray:
        """The rows (agents, P), zero where nothing was sent."""
        rows = np.zeros((len(self.values), self.columns), self.values.dtype)
        there = self.indices >= 0
        rows[there.nonzero()[0], self.indices[there]] = self.values[there]
        return rows
