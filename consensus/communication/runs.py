"""Vectors of integers with few bits each: runs of 32 share a width."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus.communication.packed import PackedRows, check_dtype

RUN = 32  # integers that share a width
WIDTH = 6  # bits of a width, 0 to 63
_MOST = 50  # 2^50 is the largest code of Runs


def packed_bytes(codes: np.ndarray) -> np.ndarray:
    """Return the sizes (n,) of messages with the rows of ``codes`` (n, P): the widths of runs, and their bits.

    Codes are integers below 2^62 in modulus, of any dtype. A row with a NaN, which only a diverging run has, counts as zeros.
    """
    widths = widths_of(codes)
    runs = np.full(widths.shape[1], RUN)
    runs[-1:] -= -codes.shape[1] % RUN
    lengths: np.ndarray = -(-(widths @ runs + WIDTH * widths.shape[1]) // 8)
    return lengths


@dataclass(frozen=True, eq=False)
class Runs(PackedRows):
    """Rows as whole multiples of units, in runs of 32 that share a width.

    A row is divided into parts of equal length, each with a unit of its own. A message holds the packed multiples of each part
    and each unit: two bytes for the exponent of a power of two, another one as it is.

    Parameters
    ----------
    codes : ndarray (agents, P) of int64, or int32 with units in float32
        Multiples.
    unit : ndarray (agents, parts)
        Positive numbers, in the dtype of the rows; NaN for a part that unpacks to NaN. Multiples of powers of two are exact.

    Raises
    ------
    ValueError, TypeError
        If shapes or dtypes are wrong, or a unit is not positive.

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

    sent = ("codes", "unit")

    def __post_init__(self) -> None:
        unit = _checks.floats("unit of Runs", self.unit)
        check_dtype("codes of Runs", self.codes, _whole(unit.dtype))
        object.__setattr__(self, "unit", unit)
        _check_parts("codes", self.codes, unit)
        _check_positive(unit, ~np.isnan(unit))

    @classmethod
    def nearest(cls, rows: np.ndarray, unit: np.ndarray) -> Runs:
        """Round to multiples of a unit, or of 2^k times that unit.

        The factor, usually one, is the least for which all numbers of a part are below 2^50 units in modulus (2^22 in single
        precision, so that products of codes and units are exact), and the unit is a normal number of the rows' dtype. A part
        with a NaN or an infinity, or whose unit is NaN, infinite or zero, unpacks to NaN, so that a diverging run is seen to
        diverge.

        Parameters
        ----------
        rows : ndarray (agents, P)
            Rows of floats.
        unit : ndarray (agents, parts)
            Positive numbers.

        Returns
        -------
        Runs
            The rounded rows.
        """
        rows, unit = _checks.floats("rows", rows), _checks.floats("unit", unit)
        _check_parts("rows", rows, unit)
        parts = rows.reshape(*unit.shape, rows.shape[1] // unit.shape[1])
        largest = np.maximum(parts.max(axis=2, initial=0), -parts.min(axis=2, initial=0))
        known = np.isfinite(largest) & np.isfinite(unit) & (unit != 0)
        _check_positive(unit, known)
        info = np.finfo(rows.dtype)
        needed = np.where(largest > 0, np.frexp(np.where(known, largest, 0))[1] - min(_MOST, info.nmant - 1), info.minexp)
        mantissa, exponent = np.frexp(np.where(known, unit, 1))
        exponent = np.maximum(exponent - 1, np.maximum(needed, info.minexp))
        used = np.ldexp(rows.dtype.type(2) * mantissa.astype(rows.dtype), np.minimum(exponent, info.maxexp - 1))
        codes = parts / used[:, :, None]
        np.rint(codes, out=codes)
        if not known.all():
            codes[~known] = 0
            used[~known] = np.nan
        return cls(codes.reshape(rows.shape).astype(_whole(rows.dtype)), used)

    @functools.cached_property
    def bytes(self) -> np.ndarray:
        """Size of each message (agents,)."""
        agents, parts = self.unit.shape
        codes = self.codes.reshape(agents * parts, self.codes.shape[1] // parts)
        units = np.where(
            (np.frexp(self.unit)[0] == 0.5) | np.isnan(self.unit), 2, self.unit.itemsize
        )  # the exponent of a power of two, or all of it
        sizes: np.ndarray = packed_bytes(codes).reshape(agents, parts).sum(axis=1) + units.sum(axis=1)
        return sizes

    def unpack(self) -> np.ndarray:
        parts = self.codes.reshape(*self.unit.shape, self.codes.shape[1] // self.unit.shape[1])
        rows: np.ndarray = (parts * self.unit[:, :, None]).reshape(self.codes.shape).astype(self.unit.dtype, copy=False)
        return rows


def _check_parts(name: str, rows: np.ndarray, unit: np.ndarray) -> None:
    """Raise ``ValueError`` unless rows fall into equal parts, one for each unit."""
    if rows.ndim != 2 or unit.ndim != 2 or len(rows) != len(unit) or not unit.shape[1] or rows.shape[1] % unit.shape[1]:
        raise ValueError(
            f"{name} and unit of Runs must have shapes (agents, P) and (agents, parts), with P a multiple of parts; got "
            f"{rows.shape} and {unit.shape}"
        )


def _check_positive(unit: np.ndarray, known: np.ndarray) -> None:
    """Raise ``ValueError`` unless all ``known`` units are positive."""
    wrong = known & ~(unit > 0)
    if wrong.any():
        raise ValueError(f"unit of Runs must hold positive numbers; got {unit[wrong][0]}")


def _whole(dtype: np.dtype) -> np.dtype:
    """Return the integers that hold codes of rows of a floating ``dtype``, in as many bytes."""
    if dtype.itemsize > 8:
        raise TypeError(f"rows of {dtype} have no Runs: pass rows.astype(float)")
    return np.dtype(f"i{dtype.itemsize}")


def widths_of(codes: np.ndarray) -> np.ndarray:
    """Bits of an integer in each run of each row (n, runs)."""
    if not codes.shape[1]:
        return np.zeros((len(codes), 0), int)
    moduli = np.abs(codes)
    if moduli.dtype.kind == "i":  # the modulus of the least integer is none of its own type
        moduli = moduli.view(f"u{moduli.itemsize}")
    largest = np.maximum.reduceat(moduli, np.arange(0, codes.shape[1], RUN), axis=1)
    if largest.dtype.kind == "f":
        largest = np.nan_to_num(largest, posinf=0)
    return np.where(largest > 0, np.frexp(largest)[1] + 1, 0)
