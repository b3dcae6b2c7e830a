"""Entries drawn at random."""

from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.packing import Drawn
from consensus.problems import BaseProblem
from consensus.solvers.compression.base import Compressor, rows_of
from consensus.solvers.compression.counts import entries, some


@dataclass(frozen=True)
class RandomK(Compressor):
    """k entries of a row, drawn at random without replacement; the others count as zero.

    ``E |Q(x) - x|^2 = (1 - k/P) |x|^2``. Receivers draw the same places again: a message holds k values and four bytes more.

    Parameters
    ----------
    k : int or float
        As of :class:`TopK`.
    seed : int
        >= 0. Places depend on it, the agent and the number of its message alone.

    Raises
    ------
    ValueError
        If ``k`` or ``seed`` is out of range; when a run begins, if ``k`` is above P.

    References
    ----------
    Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018, Definition 2.1.

    Examples
    --------
    >>> from consensus.solvers import RandomK
    >>> RandomK(0.1).omega(1000)
    0.1
    """

    k: float
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", some("k of RandomK", self.k))
        _checks.count("seed of RandomK", self.seed, least=0)

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        self.omega(problem.parameters)

    def omega(self, parameters: int) -> float:
        return entries("k of RandomK", self.k, parameters) / parameters

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        rows = rows_of(rows)
        return Drawn.some(rows, entries("k of RandomK", self.k, rows.shape[1]), agents, self.seed, number)
