"""Half precision."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import DTypeLike

from consensus import _checks
from consensus.communication import Packed
from consensus.compression.base import Compressor, rows_of


@dataclass(frozen=True)
class Half(Compressor):
    """Every number in half precision, two bytes, after the row was multiplied by a power of two that fits its largest.

    ``|Q(x) - x|^2 <= (2^-22 + 2^-78 P) |x|^2``: a number keeps eleven bits, one below 2^-28 of the row's largest fewer. A
    message has two bytes more, for the power.

    Examples
    --------
    >>> from consensus.compression import Half
    >>> 1 - Half().omega(1000) < 1e-6
    True
    """

    def omega(self, parameters: int) -> float:
        return 1 - 2.0**-22 - parameters * 2.0**-78

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        return Halves.nearest(rows_of(rows))


_LARGEST = 15  # scaled numbers are below 2^15: half precision ends at 65504


@dataclass(frozen=True, eq=False)
class Halves:
    """Rows in half precision (IEEE binary16), each times a power of two of its own.

    The power takes a row's largest modulus to between 2^14 and 2^15: neither do large numbers become infinite, nor rows of
    small ones zero. A number keeps eleven bits, but for those below 2^-28 of the row's largest, which keep fewer, down to 2^-39
    of it. A message holds two bytes a number, and two for the power.

    Parameters
    ----------
    values : ndarray of float16 (agents, P)
    exponents : ndarray of int16 (agents, 1)
        The row is ``values * 2^exponent``.
    dtype : dtype
        Of the rows.

    Raises
    ------
    ValueError, TypeError
        If the arrays do not belong together.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import Halves
    >>> halves = Halves.nearest(np.array([[1e-9, 0.0, -3e-9], [1 / 3, 1e300, 0.0]]))
    >>> halves.unpack()
    array([[ 1.00044417e-009,  0.00000000e+000, -2.99951353e-009],
           [ 0.00000000e+000,  9.99961341e+299,  0.00000000e+000]])
    >>> halves.bytes
    array([8, 8])
    """

    values: np.ndarray
    exponents: np.ndarray
    dtype: DTypeLike

    def __post_init__(self) -> None:
        for name, array, dtype in (("values", self.values, np.float16), ("exponents", self.exponents, np.int16)):
            if not isinstance(array, np.ndarray) or array.dtype != dtype:
                raise TypeError(f"{name} of Halves must be an array of {np.dtype(dtype)}; got {_checks.shown(array)}")
        if self.values.ndim != 2 or self.exponents.shape != (len(self.values), 1):
            raise ValueError(
                "values and exponents of Halves must have shapes (agents, P) and (agents, 1); got "
                f"{self.values.shape} and {self.exponents.shape}"
            )

    @classmethod
    def nearest(cls, rows: np.ndarray) -> Halves:
        """The ``rows`` (agents, P), each number rounded to the nearest."""
        rows = _checks.floats("rows", rows)
        if rows.ndim != 2 or not rows.shape[1]:
            raise ValueError(f"rows must have shape (agents, P); got {rows.shape}")
        exponents = np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1] - _LARGEST
        # In two steps, as 2^-exponent itself may be beyond the largest double.
        one = rows.dtype.type(1)
        scaled = rows * np.ldexp(one, -(exponents // 2)) * np.ldexp(one, exponents // 2 - exponents)
        return cls(scaled.astype(np.float16), exponents.astype(np.int16), rows.dtype)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Values and exponents, as they are sent."""
        return self.values, self.exponents

    @property
    def numbers(self) -> np.ndarray:
        """P for every row (agents,)."""
        return np.full(len(self.values), self.values.shape[1])

    @property
    def bytes(self) -> np.ndarray:
        """Those of a row's values and of its exponent (agents,)."""
        return self.numbers * self.values.itemsize + self.exponents.itemsize

    def of(self, values: np.ndarray, exponents: np.ndarray) -> Halves:
        """Rows with these values."""
        return replace(self, values=values, exponents=exponents)

    def unpack(self) -> np.ndarray:
        """The rows (agents, P)."""
        return np.ldexp(self.values.astype(self.dtype), self.exponents.astype(np.int32))
