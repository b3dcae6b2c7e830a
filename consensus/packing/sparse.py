"""A few numbers of each row, and where they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from consensus import _checks


@dataclass(frozen=True, eq=False)
class Sparse:
    """Rows of which a few entries are sent, and the others taken as zero.

    A message holds each value in the dtype of the rows and its column in four bytes.

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

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[3.0, -5.0, 1.0, 0.5], [0.0, 2.0, 4.0, -1.0]])
    >>> sparse = Sparse.largest(rows, 2)
    >>> sparse.unpack()
    array([[ 3., -5.,  0.,  0.],
           [ 0.,  2.,  4.,  0.]])
    >>> sparse.bytes
    array([24, 24])
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

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Values and indices, as they are sent."""
        return self.values, self.indices

    @property
    def numbers(self) -> np.ndarray:
        """How many values each row has (agents,)."""
        return np.count_nonzero(self.indices >= 0, axis=1)

    @property
    def bytes(self) -> np.ndarray:
        """Those of each row's values and indices (agents,)."""
        return self.numbers * (self.values.itemsize + self.indices.itemsize)

    def of(self, values: np.ndarray, indices: np.ndarray) -> Sparse:
        """Rows of as many columns with these entries."""
        return replace(self, values=values, indices=indices)

    def unpack(self) -> np.ndarray:
        """The rows (agents, P), zero where nothing was sent."""
        rows = np.zeros((len(self.values), self.columns), self.values.dtype)
        there = self.indices >= 0
        rows[there.nonzero()[0], self.indices[there]] = self.values[there]
        return rows
