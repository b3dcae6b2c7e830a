"""Matrices of low rank as the two factors that make them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from consensus import _checks


@dataclass(frozen=True, eq=False)
class Factors:
    """Rows that hold matrices of low rank, of which two factors are sent, and other numbers, which are sent as they are.

    Parameters
    ----------
    values : ndarray (agents, width)
        For each matrix ``L R'`` its factors L (m, r) and R (n, r), row by row, then the row's other numbers in their order.
    matrices : tuple of (start, m, n)
        Where in a row the matrices are, in ascending order: the m n numbers from ``start`` on, row by row.
    rank : int
        r.
    columns : int
        P.

    Raises
    ------
    ValueError, TypeError
        If they do not belong together.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.packing import Factors
    >>> factors = Factors(np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 7.0]]), matrices=((0, 2, 3),), rank=1, columns=7)
    >>> factors.unpack()
    array([[ 3.,  4.,  5.,  6.,  8., 10.,  7.]])
    """

    values: np.ndarray
    matrices: tuple[tuple[int, int, int], ...]
    rank: int
    columns: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _checks.floats("values of Factors", self.values))
        _checks.count("rank of Factors", self.rank)
        _checks.count("columns of Factors", self.columns)
        width = self.columns - sum(m * n - self.rank * (m + n) for _, m, n in self.matrices)
        if self.values.ndim != 2 or self.values.shape[1] != width:
            raise ValueError(f"values of Factors must have shape (agents, {width}) for these matrices; got {self.values.shape}")

    @classmethod
    def along(cls, rows: np.ndarray, matrices: tuple[tuple[int, int, int], ...], directions: list[np.ndarray]) -> Factors:
        """The ``rows`` (agents, P), every matrix M of theirs projected: ``L = orth(M D)``, ``R = M' L``.

        The ``directions`` D (agents, n, r) are one array a matrix. Of a matrix of rank at most r nothing is lost, for almost
        all directions.
        """
        rows = _checks.floats("rows", rows)
        rank, rest, factors = directions[0].shape[2], np.ones(rows.shape[1], bool), []
        for (start, m, n), sight in zip(matrices, directions, strict=True):
            rest[start : start + m * n] = False
            matrix = rows[:, start : start + m * n].reshape(-1, m, n)
            left = orthonormal(matrix @ sight)
            factors += [left.reshape(len(rows), -1), (matrix.swapaxes(1, 2) @ left).reshape(len(rows), -1)]
        values = np.concatenate([*factors, rows[:, rest]], axis=1)
        return cls(values, matrices, rank, rows.shape[1])

    @property
    def arrays(self) -> tuple[np.ndarray]:
        """The values, as they are sent."""
        return (self.values,)

    @property
    def numbers(self) -> np.ndarray:
        """How many values each row has (agents,)."""
        return np.full(len(self.values), self.values.shape[1])

    @property
    def bytes(self) -> np.ndarray:
        """Those of each row's values (agents,)."""
        return self.numbers * self.values.itemsize

    def of(self, values: np.ndarray) -> Factors:
        """Rows with the same matrices of these values."""
        return replace(self, values=values)

    def unpack(self) -> np.ndarray:
        """The rows (agents, P)."""
        rows, agents, r = np.empty((len(self.values), self.columns), self.values.dtype), len(self.values), self.rank
        rest, at = np.ones(self.columns, bool), 0
        for start, m, n in self.matrices:
            rest[start : start + m * n] = False
            left, right = self.values[:, at : at + m * r], self.values[:, at + m * r : at + (m + n) * r]
            at += (m + n) * r
            product = left.reshape(agents, m, r) @ right.reshape(agents, n, r).swapaxes(1, 2)
            rows[:, start : start + m * n] = product.reshape(agents, -1)
        rows[:, rest] = self.values[:, at:]
        return rows


def orthonormal(matrices: np.ndarray) -> np.ndarray:
    """Orthonormal bases of the columns of ``matrices`` (agents, m, r), r <= m, each from its own alone."""
    return np.linalg.qr(matrices)[0]
