"""Matrices of low rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.compression.base import Compressor, generator, rows_of
from consensus.problems import BaseProblem


@dataclass(frozen=True)
class LowRank(Compressor):
    """The matrices in a row, each M (m, n) projected on r random combinations of its columns: one step of power iteration.

        D (n, r) standard normal,     L = orth(M D),     R = M' L,     Q(M) = L R'

    A message holds L and R, r (m + n) numbers for the m n, and all numbers that are in no matrix, or in one that is as short.
    ``E |Q(M) - M|^2 <= (1 - r / min(m, n)) |M|^2``: the first column of L leaves of a matrix of rank k at most 1 - 1/k, on
    average, and what is left has rank k - 1.

    Parameters
    ----------
    rank : int
        r.
    matrices : tuple of (start, m, n), optional
        Where in the parameter vector the matrices are: m n numbers from ``start`` on, row by row; in ascending order. The
        weights of the model's layers by default.
    seed : int
        >= 0. Combinations depend on it, the agent and the number of its message alone.

    Raises
    ------
    ValueError
        If a setting is out of range; when a run begins, if ``matrices`` do not fit, or no message would be shorter.
    TypeError
        When a run begins, if no matrices are given, and the problem's model does not say where its are.

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
    matrices: tuple[tuple[int, int, int], ...] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _checks.count("rank of LowRank", self.rank)
        _checks.count("seed of LowRank", self.seed, least=0)
        if self.matrices is not None:
            object.__setattr__(self, "matrices", matrices_of("matrices of LowRank", self.matrices))

    def check(self, problem: BaseProblem) -> None:
        self.prepared(problem)

    def prepared(self, problem: BaseProblem) -> Self:
        where = self.matrices or layers(type(self).__name__, problem)
        where = shorter(f"rank of {type(self).__name__}", self.rank, where, problem.parameters)
        return self if where == self.matrices else replace(self, matrices=where)

    def omega(self, parameters: int) -> float:
        return min(1.0, *(self.rank / min(m, n) for _, m, n in self._matrices(parameters)))

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        rows = rows_of(rows)
        matrices = self._matrices(rows.shape[1])
        each = [generator(self.seed, agent, number) for agent in np.asarray(agents).tolist()]
        directions = [np.array([rng.standard_normal((n, self.rank)) for rng in each], rows.dtype) for _, _, n in matrices]
        return Factors.along(rows, matrices, [d.reshape(-1, n, self.rank) for d, (_, _, n) in zip(directions, matrices)])

    def _matrices(self, parameters):
        if self.matrices is None:
            raise TypeError("LowRank knows no matrices yet: give matrices=, or use what prepared(problem) returns")
        return shorter("rank of LowRank", self.rank, self.matrices, parameters)


def matrices_of(name: str, value: object) -> tuple[tuple[int, int, int], ...]:
    """``value`` as (start, m, n) of matrices that do not overlap, in ascending order; ValueError if it is not that."""
    found = _checks.dense(name, value)
    if found.dtype.kind not in "iu" or found.ndim != 2 or found.shape[1] != 3 or not len(found):
        raise ValueError(f"{name} must be a tuple of (start, m, n), three whole numbers each; got {_checks.shown(value)}")
    ends = found[:, 0] + found[:, 1] * found[:, 2]
    if found[:, 0].min() < 0 or found[:, 1:].min() < 1 or (found[1:, 0] < ends[:-1]).any():
        raise ValueError(f"{name} must be in ascending order and not overlap, with m, n >= 1; got {_checks.shown(value)}")
    return tuple((start, m, n) for start, m, n in found.tolist())


def layers(who: str, problem: BaseProblem) -> tuple[tuple[int, int, int], ...]:
    """Where the parameters of the problem's model are matrices; ``TypeError`` if it does not say so."""
    model = getattr(_checks.problem(problem), "model", None)
    found = getattr(model, "matrices", None)
    if found is None:
        raise TypeError(
            f"{who} needs to know where the parameters are matrices, and {problem if model is None else model} does not say: "
            "give matrices=((start, m, n), ...)"
        )
    return found


def shorter(
    name: str, rank: int, matrices: tuple[tuple[int, int, int], ...], parameters: int
) -> tuple[tuple[int, int, int], ...]:
    """Those of ``matrices`` whose factors of ``rank`` are shorter than they are.

    Raises
    ------
    ValueError
        If there are none, or they do not fit in a vector of ``parameters``.
    """
    start, m, n = matrices[-1]
    if start + m * n > parameters:
        raise ValueError(f"matrices must be within the {parameters} parameters; got ({start}, {m}, {n})")
    found = tuple((start, m, n) for start, m, n in matrices if rank * (m + n) < m * n)
    if not found:
        shapes = ", ".join(f"{m} x {n}" for _, m, n in matrices)
        raise ValueError(f"{name} must make a matrix shorter, r (m + n) < m n for one of {shapes}; got {rank}")
    return found


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
    >>> from consensus.compression import Factors
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
