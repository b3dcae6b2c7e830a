"""Vectors of integers with few bits each: runs of 32 share a width."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

_RUN = 32  # integers that share a width,
_WIDTH = 6  # which takes so many bits: 0 to 63


def packed_bytes(codes: np.ndarray) -> np.ndarray:
    """The lengths (n,), in whole bytes, of the messages that :func:`pack` makes of the rows of ``codes``.

    Parameters
    ----------
    codes : ndarray (n, P)
        Integers below 2^62 in modulus, of any dtype. A row with a NaN, which only a diverging run has, counts as zeros.

    Returns
    -------
    ndarray of int (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.packing.runs import packed_bytes
    >>> packed_bytes(np.array([[0, 0, 0], [3, -1, 0]])).tolist()
    [1, 2]
    """
    widths = _widths(codes)
    runs = np.full(widths.shape[1], _RUN)
    runs[-1:] -= -codes.shape[1] % _RUN
    lengths: np.ndarray = -(-(widths @ runs + _WIDTH * widths.shape[1]) // 8)
    return lengths


def pack(codes: np.ndarray) -> bytes:
    """A message with the integers ``codes`` (P,): the runs' widths, then each run in two's complement.

    A run whose integers are at most m in modulus takes ``floor(log2 m) + 2`` bits an integer, none if all are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.packing.runs import pack, unpack
    >>> unpack(pack(np.array([5, -3, 0, 100])), 4).tolist()
    [5, -3, 0, 100]
    """
    (widths,) = _widths(codes[None])
    padded = np.pad(codes.astype("<i8"), (0, -len(codes) % _RUN)).reshape(-1, _RUN)
    bits = np.unpackbits(padded.view(np.uint8).reshape(*padded.shape, 8), axis=2, bitorder="little")
    last = _RUN - (-len(codes) % _RUN)
    runs = [
        run[: last if place == len(widths) - 1 else _RUN, :width].ravel()
        for place, (run, width) in enumerate(zip(bits, widths.tolist(), strict=True))
    ]
    head = np.unpackbits(widths.astype(np.uint8)[:, None], axis=1, bitorder="little")[:, :_WIDTH]
    return np.packbits(np.concatenate([head.ravel(), *runs]), bitorder="little").tobytes()


def unpack(message: bytes, count: int) -> np.ndarray:
    """The ``count`` integers (count,) of which :func:`pack` made ``message``."""
    bits = np.unpackbits(np.frombuffer(message, np.uint8), bitorder="little")
    runs = -(-count // _RUN)
    widths = np.packbits(bits[: runs * _WIDTH].reshape(runs, _WIDTH), axis=1, bitorder="little")[:, 0].tolist()
    codes, end = np.zeros(count, np.int64), runs * _WIDTH
    for run, width in enumerate(widths):
        some = codes[run * _RUN : (run + 1) * _RUN]
        start, end = end, end + width * len(some)
        if width:
            whole = np.repeat(bits[start:end].reshape(len(some), width)[:, -1:], 64, axis=1)  # the sign fills the left
            whole[:, :width] = bits[start:end].reshape(len(some), width)
            some[:] = np.packbits(whole, axis=1, bitorder="little").view("<i8")[:, 0]
    return codes


@dataclass(frozen=True, eq=False)
class Runs:
    """Rows as whole multiples of units, in runs of 32 that share a width: as :func:`pack` writes them.

    Parameters
    ----------
    codes : ndarray of int32 (agents, columns)
        The multiples.
    unit : ndarray (agents, parts)
        A row falls into so many parts of equal length, each with a unit of its own, a power of two; NaN if the row holds one.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.packing.runs import Runs
    >>> runs = Runs.nearest(np.array([[0.3, -1.1, 6.0, 17.0]]), np.array([[0.25, 4.0]]))
    >>> runs.unpack().tolist(), runs.bytes.tolist()
    ([[0.25, -1.0, 8.0, 16.0]], [8])
    """

    codes: np.ndarray
    unit: np.ndarray

    @classmethod
    def nearest(cls, rows: np.ndarray, unit: np.ndarray) -> Runs:
        """The ``rows`` rounded to multiples of ``unit``, or where these were too large of 2^k times that."""
        parts = rows.reshape(*unit.shape, -1)
        largest = np.maximum(parts.max(axis=2, initial=0), -parts.min(axis=2, initial=0))
        finite = np.isfinite(largest)
        most = min(30, np.finfo(rows.dtype).nmant - 1)
        excess = np.frexp(np.where(finite, largest, 0) / unit)[1] - most
        least = np.finfo(rows.dtype).tiny
        unit = np.where(finite, np.maximum(np.ldexp(unit, np.maximum(excess, 0)), least), np.nan).astype(rows.dtype)
        whole = np.rint(parts / np.where(finite, unit, 1)[:, :, None])
        if not finite.all():
            whole[~finite] = 0
        return cls(whole.reshape(rows.shape).astype(np.int32), unit)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes and units."""
        return self.codes, self.unit

    @property
    def numbers(self) -> np.ndarray:
        """The columns of every row (agents,)."""
        return np.full(len(self.codes), self.codes.shape[1])

    @functools.cached_property
    def bytes(self) -> np.ndarray:
        """Those of a row's runs, and two for each unit's exponent (agents,)."""
        count, parts = self.unit.shape
        lengths = packed_bytes(self.codes.reshape(count * parts, -1)).reshape(count, parts).sum(axis=1)
        return np.asarray(lengths + 2 * parts)

    def of(self, codes: np.ndarray, unit: np.ndarray) -> Runs:
        """Rows of other agents."""
        return Runs(codes, unit)

    def unpack(self) -> np.ndarray:
        """The rows (agents, columns)."""
        parts = self.codes.reshape(*self.unit.shape, -1)
        return (parts * self.unit[:, :, None]).reshape(self.codes.shape).astype(self.unit.dtype, copy=False)


def _widths(codes):
    """Bits of an integer in each run of each row (n, runs)."""
    if not codes.shape[1]:
        return np.zeros((len(codes), 0), int)
    largest = np.maximum.reduceat(np.abs(codes), np.arange(0, codes.shape[1], _RUN), axis=1)
    if largest.dtype.kind == "f":
        largest = np.nan_to_num(largest, posinf=0)
    return np.where(largest > 0, np.frexp(largest)[1] + 1, 0)
