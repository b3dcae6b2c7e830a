"""The largest entries."""

from dataclasses import dataclass

import numpy as np

from consensus.communication import Packed
from consensus.packing import Sparse
from consensus.problems import BaseProblem
from consensus.solvers.compression.base import Compressor, rows_of
from consensus.solvers.compression.counts import entries, some


@dataclass(frozen=True)
class TopK(Compressor):
    """The k entries of a row that are largest in modulus; the others count as zero.

    ``|Q(x) - x|^2 <= (1 - k/P) |x|^2``. A message holds k values and their places, of at most
    ``2 + log2(P / k)`` bits each: see :class:`consensus.packing.Sparse`.

    Parameters
    ----------
    k : int or float
        A whole number of entries, at most P; or, as a float in (0, 1], a fraction of the P, rounded, at least one entry.

    Raises
    ------
    ValueError
        If ``k`` is out of range; when a run begins, if it is above P.

    References
    ----------
    Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018, Definition 2.1.

    Examples
    --------
    >>> from consensus.solvers import TopK
    >>> TopK(0.1).omega(1000), TopK(5).omega(1000)
    (0.1, 0.005)
    """

    k: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", some("k of TopK", self.k))

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        self.omega(problem.parameters)

    def omega(self, parameters: int) -> float:
        return entries("k of TopK", self.k, parameters) / parameters

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        rows = rows_of(rows)
        return Sparse.largest(rows, entries("k of TopK", self.k, rows.shape[1]))
