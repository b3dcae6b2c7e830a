"""Matrices of low rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.communication.packed import PackedRows
from consensus.compression.base import Compressor, generator, rows_of
from consensus.problems import BaseProblem

Matrices: TypeAlias = tuple[tuple[int, int, int], ...]  # (start, m, n), in ascending order


@dataclass(frozen=True)
class LowRank(Compressor):
    """The matrices in a row, each M (m, n) projected on r random combinations of its columns: one step of power iteration.

        D (n, r) standard normal,     L = orth(M D),     R = M' L,     Q(M) = L R'

    A message holds L and R, r (m + n) numbers for the m n, and all numbers that are in no matrix, or in one that is not longer
    than its factors. ``E |Q(M) - M|^2 <= (1 - r / min(m, n)) |M|^2``: of a matrix of rank k, the first column of L loses at
    most 1 - 1/k on average, and the rest has rank k - 1.

    Parameters
    ----------
    rank : int
        Rank r.
    matrices : tuple of (start, m, n), optional
        Positions of the matrices in the parameter vector: m n numbers from ``start`` on, row by row; in ascending order. The
        weights of the model's layers by default.
    seed : int
        Seed of the combinations, >= 0.

    Raises
    ------
    ValueError
        If a setting is out of range; when a run begins, if ``matrices`` do not fit, or no message would be shorter.
    TypeError
        When a run begins, if neither the setting nor the problem's model gives matrices.

    References
    ----------
    Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression for distributed optimization", NeurIPS 2019,
    Algorithm 1, without its warm start.

    Examples
    --------
    >>> from consensus.compression import LowRank
    >>> LowRank(2, matrices=((0, 20, 10),)).omega(210)
    0.2
    """

    rank: int
    matrices: Matrices | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", _checks.count("rank of LowRank", self.rank))
        object.__setattr__(self, "seed", _checks.count("seed of LowRank", self.seed, least=0))
        if self.matrices is not None:
            object.__setattr__(self, "matrices", _ascending(self.matrices))

    def check(self, problem: BaseProblem) -> None:
        self.prepared(problem)

    def prepared(self, problem: BaseProblem) -> Self:
        model = _checks.problem(problem).model
        matrices = self.matrices or getattr(model, "matrices", None)
        if matrices is None:
            raise TypeError(
                f"LowRank needs to know where the parameters are matrices, and {problem if model is None else model} does not "
                "say: give matrices=((start, m, n), ...)"
            )
        ready = replace(self, matrices=matrices)
        shorter = ready._shorter(problem.parameters)
        return self if shorter == self.matrices else replace(ready, matrices=shorter)

    def omega(self, parameters: int) -> float:
        return min(1.0, *(self.rank / min(m, n) for _, m, n in self._shorter(parameters)))

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        rows = rows_of(rows)
        matrices = self._shorter(rows.shape[1])
        directions = [np.empty((len(rows), n, self.rank), rows.dtype) for _, _, n in matrices]
        for row, agent in enumerate(np.asarray(agents).tolist()):
            rng = generator(self.seed, agent, number)
            for drawn in directions:
                drawn[row] = rng.standard_normal(drawn.shape[1:])
        return Factors.along(rows, matrices, directions)

    def _shorter(self, parameters: int) -> Matrices:
        """Return the matrices that are longer than their factors."""
        if self.matrices is None:
            raise TypeError("LowRank knows no matrices yet: give matrices=, or use what prepared(problem) returns")
        start, m, n = self.matrices[-1]
        if start + m * n > parameters:
            raise ValueError(f"matrices must be within the {parameters} parameters; got ({start}, {m}, {n})")
        found = tuple((start, m, n) for start, m, n in self.matrices if self.rank * (m + n) < m * n)
        if not found:
            shapes = ", ".join(f"{m} x {n}" for _, m, n in self.matrices)
            raise ValueError(
                f"rank of LowRank must make a matrix shorter, r (m + n) < m n for one of {shapes}; got {self.rank}"
            )
        return found


def _ascending(value: object) -> Matrices:
    """Return ``value`` as (start, m, n) of matrices that do not overlap; ``ValueError`` if it is not that."""
    found, name = _checks.dense("matrices of LowRank", value), "matrices of LowRank"
    if found.dtype.kind not in "iu" or found.ndim != 2 or found.shape[1] != 3 or not len(found):
        raise ValueError(f"{name} must be a tuple of (start, m, n), three whole numbers each; got {_checks.shown(value)}")
    ends = found[:, 0] + found[:, 1] * found[:, 2]
    if found[:, 0].min() < 0 or found[:, 1:].min() < 1 or (found[1:, 0] < ends[:-1]).any():
        raise ValueError(f"{name} must be in ascending order and not overlap, with m, n >= 1; got {_checks.shown(value)}")
    return tuple((start, m, n) for start, m, n in found.tolist())


@dataclass(frozen=True, eq=False)
class Factors(PackedRows):
    """Rows with matrices of low rank, of which two factors are sent, and other numbers, which are sent as they are.

    Parameters
    ----------
    values : ndarray (agents, width)
        For each matrix ``L R'`` its factors L (m, r) and R (n, r), row by row, then the row's other numbers in their order.
    matrices : tuple of (start, m, n)
        Positions of the matrices in a row, in ascending order: the m n numbers from ``start`` on, row by row.
    rank : int
        Rank r.
    columns : int
        P.

    Raises
    ------
    ValueError, TypeError
        If shapes or dtypes are wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import Factors
    >>> factors = Factors(np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 7.0]]), matrices=((0, 2, 3),), rank=1, columns=7)
    >>> factors.unpack()
    array([[ 3.,  4.,  5.,  6.,  8., 10.,  7.]])
    """

    values: np.ndarray
    matrices: Matrices
    rank: int
    columns: int

    sent = ("values",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _checks.floats("values of Factors", self.values))
        object.__setattr__(self, "rank", _checks.count("rank of Factors", self.rank))
        object.__setattr__(self, "columns", _checks.count("columns of Factors", self.columns))
        width = self.columns - sum(m * n - self.rank * (m + n) for _, m, n in self.matrices)
        if self.values.ndim != 2 or self.values.shape[1] != width:
            raise ValueError(f"values of Factors must have shape (agents, {width}) for these matrices; got {self.values.shape}")

    @classmethod
    def along(cls, rows: np.ndarray, matrices: Matrices, directions: list[np.ndarray]) -> Factors:
        """Project every matrix M of the rows: ``L = orth(M D)``, ``R = M' L``.

        A matrix of rank at most r loses nothing, for almost all directions.

        Parameters
        ----------
        rows : ndarray (agents, P)
            Rows of floats.
        matrices : tuple of (start, m, n)
            Positions of the matrices in a row.
        directions : list of ndarray (agents, n, r)
            D, for each matrix.

        Returns
        -------
        Factors
            The projected rows.
        """
        rows, factors = rows_of(rows), []
        for (start, m, n), D in zip(matrices, directions, strict=True):
            M = rows[:, start : start + m * n].reshape(-1, m, n)
            L = orthonormal(M @ D)
            factors += [L.reshape(len(rows), -1), (M.swapaxes(1, 2) @ L).reshape(len(rows), -1)]
        values = np.concatenate([*factors, rows[:, outside(matrices, rows.shape[1])]], axis=1)
        return cls(values, matrices, directions[0].shape[2], rows.shape[1])

    def unpack(self) -> np.ndarray:
        agents, r, end = len(self.values), self.rank, 0
        rows = np.empty((agents, self.columns), self.values.dtype)
        for start, m, n in self.matrices:
            middle, begin, end = end + m * r, end, end + (m + n) * r
            L, R = self.values[:, begin:middle].reshape(agents, m, r), self.values[:, middle:end].reshape(agents, n, r)
            rows[:, start : start + m * n] = (L @ R.swapaxes(1, 2)).reshape(agents, -1)
        rows[:, outside(self.matrices, self.columns)] = self.values[:, end:]
        return rows


def outside(matrices: Matrices, columns: int) -> np.ndarray:
    """Return a mask (columns,) of the numbers of a row that are in none of the ``matrices``."""
    mask = np.ones(columns, bool)
    for start, m, n in matrices:
        mask[start : start + m * n] = False
    return mask


def orthonormal(matrices: np.ndarray) -> np.ndarray:
    """Return orthonormal bases of the columns of ``matrices`` (..., m, r), r <= m, each from its own alone."""
    bases: np.ndarray = np.linalg.qr(matrices)[0]
    return bases
