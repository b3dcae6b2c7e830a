"""Matrices of low rank."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.packing import Factors
from consensus.packing.drawn import generator
from consensus.problems import BaseProblem
from consensus.solvers.compression.base import Compressor, rows_of


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
    >>> from consensus.solvers import LowRank
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
