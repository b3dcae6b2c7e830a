"""Half precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from consensus.communication import Packed
from consensus.communication.packed import PackedRows, check_dtype
from consensus.compression.base import Compressor, rows_of


@dataclass(frozen=True)
class Half(Compressor):
    """Every number in half precision: two bytes, and two for a power of two per row (:class:`Halves`).

    ``|Q(x) - x|^2 <= (2^-22 + 2^-78 P) |x|^2``.

    Examples
    --------
    >>> from consensus.compression import Half
    >>> 1 - Half().omega(1000) < 1e-6
    True
    """

    def omega(self, parameters: int) -> float:
        return 1 - 2.0**-22 - parameters * 2.0**-78

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        return Halves.nearest(rows)


_LARGEST = 15  # scaled numbers are below 2^15: half precision ends at 65504


@dataclass(frozen=True, eq=False)
class Halves(PackedRows):
    """Rows in half precision (IEEE binary16), each multiplied by a power of two.

    The power takes the row's largest modulus to [2^14, 2^15), so that large numbers stay finite and rows of small ones do not
    vanish. A number keeps eleven bits; one below 2^-28 of the row's largest keeps fewer, and below 2^-39 it becomes zero.

    Parameters
    ----------
    values : ndarray of float16 (agents, P)
        Scaled numbers.
    exponents : ndarray of int16 (agents, 1)
        The row is ``values * 2^exponent``.
    dtype : dtype
        Dtype of the rows.

    Raises
    ------
    ValueError, TypeError
        If shapes or dtypes are wrong.

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

    sent = ("values", "exponents")

    def __post_init__(self) -> None:
        check_dtype("values of Halves", self.values, np.float16)
        check_dtype("exponents of Halves", self.exponents, np.int16)
        if self.values.ndim != 2 or self.exponents.shape != (len(self.values), 1):
            raise ValueError(
                "values and exponents of Halves must have shapes (agents, P) and (agents, 1); got "
                f"{self.values.shape} and {self.exponents.shape}"
            )

    @classmethod
    def nearest(cls, rows: np.ndarray) -> Halves:
        """Round every number to the nearest.

        Parameters
        ----------
        rows : ndarray (agents, P)
            Rows of finite numbers.

        Returns
        -------
        Halves
            The rounded rows.
        """
        rows = rows_of(rows)
        exponents = np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1] - _LARGEST
        # In two steps, because 2^-exponent may be beyond the largest double.
        one = rows.dtype.type(1)
        scaled = rows * np.ldexp(one, -(exponents // 2)) * np.ldexp(one, exponents // 2 - exponents)
        return cls(scaled.astype(np.float16), exponents.astype(np.int16), rows.dtype)

    def unpack(self) -> np.ndarray:
        rows: np.ndarray = np.ldexp(self.values.astype(self.dtype), self.exponents.astype(np.int32))
        return rows
