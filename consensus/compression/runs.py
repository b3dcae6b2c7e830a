"""Vectors of integers with few bits each: runs of 32 share a width."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from consensus import _checks

_RUN = 32  # integers that share a width,
_WIDTH = 6  # which takes so many bits: 0 to 63
_MOST = 50  # 2^50 is the largest code of Runs


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
    >>> from consensus.compression.runs import packed_bytes
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
    >>> from consensus.compression.runs import pack, unpack
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

    A row falls into parts of equal length, each with a unit of its own, a power of two. A message holds what :func:`pack`
    makes of each part's multiples, and two bytes for each unit's exponent.

    Parameters
    ----------
    codes : ndarray (agents, P) of int64, with units in single precision of int32
        The multiples.
    unit : ndarray (agents, parts)
        Powers of two, in the dtype of the rows; NaN for a part that unpacks to NaN.

    Raises
    ------
    ValueError, TypeError
        If the arrays do not belong together.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import Runs
    >>> runs = Runs.nearest(np.array([[0.3, -1.1, 6.0, 17.0]]), np.array([[0.25, 4.0]]))
    >>> runs.unpack().tolist(), runs.bytes.tolist()
    ([[0.25, -1.0, 8.0, 16.0]], [8])
    """

    codes: np.ndarray
    unit: np.ndarray

    def __post_init__(self) -> None:
        unit = _checks.floats("unit of Runs", self.unit)
        if not isinstance(self.codes, np.ndarray) or self.codes.dtype != _whole(unit.dtype):
            wanted = _whole(unit.dtype).name
            raise TypeError(
                f"codes of Runs must be an array of {wanted} with units of {unit.dtype}; got {_checks.shown(self.codes)}"
            )
        object.__setattr__(self, "unit", unit)
        _check_parts("codes", self.codes, unit)
        _check_powers(unit, ~np.isnan(unit))

    @classmethod
    def nearest(cls, rows: np.ndarray, unit: np.ndarray) -> Runs:
        """The ``rows`` (agents, P) rounded to multiples of ``unit`` (agents, parts), or of 2^k times that.

        The factor, usually one, is the least for which all numbers of a part are below 2^50 units in modulus (2^22 in single
        precision, so that products of codes and units are exact), and the unit is a normal number of the rows' dtype. A part
        that holds a NaN or an infinity, or whose unit is NaN, infinite or zero, unpacks to NaN: a run that diverges is seen to
        diverge.
        """
        rows, unit = _checks.floats("rows", rows), _checks.floats("unit", unit)
        _check_parts("rows", rows, unit)
        parts = rows.reshape(*unit.shape, rows.shape[1] // unit.shape[1])
        largest = np.maximum(parts.max(axis=2, initial=0), -parts.min(axis=2, initial=0))
        known = np.isfinite(largest) & np.isfinite(unit) & (unit != 0)
        _check_powers(unit, known)
        info = np.finfo(rows.dtype)
        needed = np.where(largest > 0, np.frexp(np.where(known, largest, 0))[1] - min(_MOST, info.nmant - 1), info.minexp)
        exponent = np.maximum(np.frexp(np.where(known, unit, 1))[1] - 1, np.maximum(needed, info.minexp))
        used = np.ldexp(rows.dtype.type(1), np.minimum(exponent, info.maxexp - 1))
        codes = parts / used[:, :, None]
        np.rint(codes, out=codes)
        if not known.all():
            codes[~known] = 0
            used[~known] = np.nan
        return cls(codes.reshape(rows.shape).astype(_whole(rows.dtype)), used)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes and units."""
        return self.codes, self.unit

    @property
    def numbers(self) -> np.ndarray:
        """P for every row (agents,)."""
        return np.full(len(self.codes), self.codes.shape[1])

    @functools.cached_property
    def bytes(self) -> np.ndarray:
        """Those of a row's runs, and two for each unit's exponent (agents,)."""
        agents, parts = self.unit.shape
        codes = self.codes.reshape(agents * parts, self.codes.shape[1] // parts)
        lengths: np.ndarray = packed_bytes(codes).reshape(agents, parts).sum(axis=1) + 2 * parts
        return lengths

    def of(self, codes: np.ndarray, unit: np.ndarray) -> Runs:
        """Rows with these codes."""
        return Runs(codes, unit)

    def unpack(self) -> np.ndarray:
        """The rows (agents, P)."""
        parts = self.codes.reshape(*self.unit.shape, self.codes.shape[1] // self.unit.shape[1])
        return (parts * self.unit[:, :, None]).reshape(self.codes.shape).astype(self.unit.dtype, copy=False)


def _check_parts(name, rows, unit):
    """Raise ``ValueError`` unless rows fall into equal parts, one for each unit."""
    if rows.ndim != 2 or unit.ndim != 2 or len(rows) != len(unit) or not unit.shape[1] or rows.shape[1] % unit.shape[1]:
        raise ValueError(
            f"{name} and unit of Runs must have shapes (agents, P) and (agents, parts), with P a multiple of parts; got "
            f"{rows.shape} and {unit.shape}"
        )


def _check_powers(unit, known):
    """Raise ``ValueError`` unless all ``known`` units are powers of two."""
    wrong = known & (np.frexp(unit)[0] != 0.5)
    if wrong.any():
        raise ValueError(f"unit of Runs must hold powers of two; got {unit[wrong][0]}")


def _whole(dtype):
    """The integers that hold codes of rows of a floating ``dtype``, in as many bytes."""
    return np.dtype(f"i{dtype.itemsize}")


def _widths(codes):
    """Bits of an integer in each run of each row (n, runs)."""
    if not codes.shape[1]:
        return np.zeros((len(codes), 0), int)
    moduli = np.abs(codes)
    if moduli.dtype.kind == "i":  # the modulus of the least integer is none of its own type
        moduli = moduli.view(f"u{moduli.itemsize}")
    largest = np.maximum.reduceat(moduli, np.arange(0, codes.shape[1], _RUN), axis=1)
    if largest.dtype.kind == "f":
        largest = np.nan_to_num(largest, posinf=0)
    return np.where(largest > 0, np.frexp(largest)[1] + 1, 0)
