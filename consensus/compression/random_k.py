"""Entries drawn at random."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.communication.packed import PackedRows, check_dtype
from consensus.compression.base import generator, rows_of
from consensus.compression.some_entries import SomeEntries


@dataclass(frozen=True)
class RandomK(SomeEntries):
    """Entries of a row drawn at random without replacement, k of them; the others count as zero.

    ``E |Q(x) - x|^2 = (1 - k/P) |x|^2``. Receivers draw the same places again: a message holds k values and four bytes.

    Parameters
    ----------
    k : int or float
        Number of entries, at most P; or, as a float in (0, 1], a fraction of P: rounded, but at least one entry.
    seed : int
        Seed of the places, >= 0.

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

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "seed", _checks.count("seed of RandomK", self.seed, least=0))

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        return Drawn.some(rows, self.entries(rows_of(rows).shape[1]), agents, self.seed, number)


@dataclass(frozen=True, eq=False)
class Drawn(PackedRows):
    """Rows of which k entries at random places are sent; the others count as zero.

    The places depend on the seed, the sender and the number of its message alone, so that receivers draw them again: a message
    holds k values, and the sender's number in four bytes.

    Parameters
    ----------
    values : ndarray (agents, k)
        Entries.
    senders : ndarray of int32 (agents, 1)
        The agents' numbers in the network.
    columns : int
        P >= k.
    seed : int
        Seed of the places, >= 0.
    number : int
        Number of the message, >= 0.

    Raises
    ------
    ValueError, TypeError
        If shapes or dtypes are wrong.

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

    sent = ("values", "senders")

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _checks.count("columns of Drawn", self.columns))
        object.__setattr__(self, "seed", _checks.count("seed of Drawn", self.seed, least=0))
        object.__setattr__(self, "number", _checks.count("number of Drawn", self.number, least=0))
        values, senders = _checks.floats("values of Drawn", self.values), self.senders
        object.__setattr__(self, "values", values)
        check_dtype("senders of Drawn", senders, np.int32)
        if values.ndim != 2 or senders.shape != (len(values), 1) or values.shape[1] > self.columns:
            raise ValueError(
                f"values and senders of Drawn must have shapes (agents, k) and (agents, 1), with k <= {self.columns} columns; "
                f"got {values.shape} and {senders.shape}"
            )

    @classmethod
    def some(cls, rows: np.ndarray, k: int, senders: np.ndarray, seed: int, number: int) -> Drawn:
        """Draw k entries of each row.

        Parameters
        ----------
        rows : ndarray (agents, P)
            A row of each sender.
        k : int
            Number of entries, from 1 to P.
        senders : ndarray (agents,)
            The agents' numbers in the network.
        seed : int
            Seed of the places.
        number : int
            Number of the message.

        Returns
        -------
        Drawn
            The drawn entries.
        """
        rows = rows_of(rows)
        _checks.count("k", k, most=rows.shape[1])
        if np.asarray(senders).dtype.kind not in "iu":
            raise TypeError(f"senders must be whole numbers, one per row; got {_checks.shown(senders)}")
        values = np.empty((len(rows), k), rows.dtype)
        drawn = cls(values, np.asarray(senders, np.int32).reshape(-1, 1), rows.shape[1], seed, number)
        values[...] = np.take_along_axis(rows, drawn._places, axis=1)
        return drawn

    def unpack(self) -> np.ndarray:
        rows = np.zeros((len(self.values), self.columns), self.values.dtype)
        np.put_along_axis(rows, self._places, self.values, axis=1)
        return rows

    @functools.cached_property
    def _places(self) -> np.ndarray:
        """Columns of the entries (agents, k)."""
        k = self.values.shape[1]
        each = (generator(self.seed, sender, self.number) for sender in self.senders[:, 0].tolist())
        return np.array([rng.choice(self.columns, k, replace=False, shuffle=False) for rng in each], np.intp).reshape(-1, k)
