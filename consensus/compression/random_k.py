"""Entries drawn at random."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.compression.base import Compressor, generator, rows_of
from consensus.compression.counts import entries, some
from consensus.problems import BaseProblem


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
    >>> from consensus.compression import RandomK
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


@dataclass(frozen=True, eq=False)
class Drawn:
    """Rows of which k entries at random places are sent, and the others taken as zero.

    Which places, depends on the seed, the sender and the number of its message alone. So the receiver draws them again: a
    message holds k values, and the sender's number in four bytes.

    Parameters
    ----------
    values : ndarray (agents, k)
    senders : ndarray of int32 (agents, 1)
        The agents' numbers in the network.
    columns : int
        P >= k.
    seed, number : int
        The seed, and which of the sender's messages it is; both >= 0.

    Raises
    ------
    ValueError, TypeError
        If they do not belong together.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import Drawn
    >>> drawn = Drawn.some(np.array([[3.0, -5.0, 1.0, 0.5], [1.0, 2.0, 4.0, -1.0]]), 2, senders=[0, 1], seed=0, number=7)
    >>> drawn.unpack()
    array([[3., 0., 1., 0.],
           [0., 2., 4., 0.]])
    >>> drawn.bytes
    array([20, 20])
    """

    values: np.ndarray
    senders: np.ndarray
    columns: int
    seed: int
    number: int

    def __post_init__(self) -> None:
        _checks.count("columns of Drawn", self.columns)
        _checks.count("seed of Drawn", self.seed, least=0)
        _checks.count("number of Drawn", self.number, least=0)
        values, senders = _checks.floats("values of Drawn", self.values), self.senders
        object.__setattr__(self, "values", values)
        if not isinstance(senders, np.ndarray) or senders.dtype != np.int32:
            raise TypeError(f"senders of Drawn must be an array of int32; got {_checks.shown(senders)}")
        if values.ndim != 2 or senders.shape != (len(values), 1) or values.shape[1] > self.columns:
            raise ValueError(
                f"values and senders of Drawn must have shapes (agents, k) and (agents, 1), with k <= {self.columns} columns; "
                f"got {values.shape} and {senders.shape}"
            )

    @classmethod
    def some(cls, rows: np.ndarray, k: int, senders: np.ndarray, seed: int, number: int) -> Drawn:
        """k entries of each of the ``rows`` (agents, P)."""
        rows = _checks.floats("rows", rows)
        if rows.ndim != 2:
            raise ValueError(f"rows must have shape (agents, P); got {rows.shape}")
        _checks.count("k", k, most=rows.shape[1])
        if np.asarray(senders).dtype.kind not in "iu":
            raise TypeError(f"senders must be whole numbers, one a row; got {_checks.shown(senders)}")
        empty = np.empty((len(rows), k), rows.dtype)
        drawn = cls(empty, np.asarray(senders, np.int32).reshape(-1, 1), rows.shape[1], seed, number)
        empty[...] = np.take_along_axis(rows, drawn._places, axis=1)
        return drawn

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Values and senders, as they are sent."""
        return self.values, self.senders

    @property
    def numbers(self) -> np.ndarray:
        """k for every row (agents,)."""
        return np.full(len(self.values), self.values.shape[1])

    @property
    def bytes(self) -> np.ndarray:
        """Those of a row's values and of its sender's number (agents,)."""
        return self.numbers * self.values.itemsize + self.senders.itemsize

    def of(self, values: np.ndarray, senders: np.ndarray) -> Drawn:
        """The same message of other senders, with these values."""
        return replace(self, values=values, senders=senders)

    def unpack(self) -> np.ndarray:
        """The rows (agents, P), zero where nothing was sent."""
        rows = np.zeros((len(self.values), self.columns), self.values.dtype)
        np.put_along_axis(rows, self._places, self.values, axis=1)
        return rows

    @functools.cached_property
    def _places(self):
        """Which entries are sent (agents, k)."""
        k = self.values.shape[1]
        each = (generator(self.seed, sender, self.number) for sender in self.senders[:, 0].tolist())
        return np.array([rng.choice(self.columns, k, replace=False, shuffle=False) for rng in each], np.intp).reshape(-1, k)
