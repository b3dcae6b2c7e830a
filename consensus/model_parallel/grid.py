"""Ranks in a grid of one, two or three dimensions, and the collectives of those on one line of it."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np

from consensus import _checks

Pairs: TypeAlias = Sequence[tuple[int, np.ndarray]]  # a rank, and the array that goes to it or comes from it
DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3}
_KIND = {"2d": ("a square", "4, 9 or 16"), "3d": ("a cube", "8, 27 or 64")}


class Ranks(Protocol):
    """Processes that send each other arrays: worker processes, or the ranks of :class:`consensus.engines.MPI`.

    Attributes
    ----------
    me, size : int
        This rank, and the number of ranks.
    """

    me: int
    size: int

    def exchange(self, receives: Pairs, sends: Pairs) -> None:
        """Receive arrays and send others, to and from each rank one at most.

        Parameters
        ----------
        receives, sends : sequence of (int, ndarray)
            Ranks, and contiguous arrays: those of ``receives`` are filled.
        """


def side(split: str, size: int, name: str = "workers") -> int:
    """Return q, so that ``size`` ranks are q, q x q or q x q x q; ``ValueError`` with their ``name`` if there is none."""
    power = DIMENSIONS[split]
    q: int = round(size ** (1 / power))
    if q**power != size:
        kind, such = _KIND[split]
        raise ValueError(f"{name} must be {kind} number for split={split!r}, such as {such}; got {size}")
    return q


def pairs_on_lines(split: str, size: int) -> list[tuple[int, int]]:
    """Return all pairs of ranks that are on one line of the grid, the lower one first."""
    at = np.stack(np.unravel_index(np.arange(size), (side(split, size),) * DIMENSIONS[split]))
    apart = (at[:, :, None] != at[:, None]).sum(axis=0)
    return [(int(one), int(other)) for one, other in np.argwhere(np.triu(apart == 1))]


class Grid:
    """Ranks in a grid, and collectives of the ranks on one of its lines; all ranks call each one together.

    Every collective is made of messages between two ranks, and sums are taken in the order of the ranks: the results have the
    same bits over pipes and MPI. With n ranks on a line and arrays of s numbers a rank sends

    - ``gather``: (n - 1) s numbers;
    - ``scatter_sum``: (n - 1) s / n numbers;
    - ``broadcast``: (n - 1) s numbers if it is the root, else none;
    - ``reduce``: s numbers if it is not the root, else none;
    - ``total``: 2 (n - 1) ceil(s / n) numbers.

    Parameters
    ----------
    ranks : Ranks
        The processes: ``consensus.engines.MPI().ranks``, or those of a :class:`SplitMLP`.
    split : {"1d", "2d", "3d"}
        A line of p ranks, a square of q x q or a cube of q x q x q.

    Attributes
    ----------
    side : int
        q; p for "1d".
    at : tuple of int
        This rank's coordinates.
    numbers, messages : int
        What this rank has sent so far.

    Raises
    ------
    ValueError
        If the number of ranks is no square or cube.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.centralized import Grid
    >>> class Fifth:  # as rank 5 of eight, of which the others are elsewhere
    ...     me, size = 5, 8
    ...     def exchange(self, receives, sends):
    ...         for _, array in receives:
    ...             array[...] = 1
    >>> grid = Grid(Fifth(), "3d")
    >>> grid.at, grid.line(axis=0), grid.gather(np.zeros(1), axis=2).ravel().tolist(), grid.numbers
    ((1, 0, 1), [1, 5], [1.0, 0.0], 1)
    """

    def __init__(self, ranks: Ranks, split: str = "3d") -> None:
        self.split = _checks.choice("split", split, tuple(DIMENSIONS))
        self.ranks = _checks.offers("ranks", ranks, ("me", "size", "exchange"), "ranks, such as consensus.engines.MPI().ranks")
        self.side = side(split, ranks.size, "ranks")
        self._shape = (self.side,) * DIMENSIONS[split]
        self.at = tuple(int(place) for place in np.unravel_index(ranks.me, self._shape))
        self.numbers = self.messages = 0

    def line(self, axis: int) -> list[int]:
        """Return the ranks on the line through this one, in order.

        Parameters
        ----------
        axis : int
            Along which the line runs.

        Returns
        -------
        list of int
            All ranks of the line, this one among them.
        """
        places = ((*self.at[:axis], place, *self.at[axis + 1 :]) for place in range(self.side))
        return [int(np.ravel_multi_index(place, self._shape)) for place in places]

    def gather(self, x: np.ndarray, axis: int) -> np.ndarray:
        """Return the arrays of all ranks on a line.

        Parameters
        ----------
        x : ndarray
            This rank's, of one shape on the line.
        axis : int
            Along which the line runs.

        Returns
        -------
        ndarray (n, ...)
            The arrays in the order of the ranks.
        """
        here, others = self._others(axis)
        whole = np.empty((self.side, *x.shape), x.dtype)
        whole[here] = x
        self._exchange([(rank, whole[k]) for k, rank in others], [(rank, whole[here]) for _, rank in others])
        return whole

    def scatter_sum(self, parts: np.ndarray, axis: int) -> np.ndarray:
        """Return the sum of the parts that the ranks on a line have for this one.

        Parameters
        ----------
        parts : ndarray (n, ...)
            This rank's parts for each rank on the line, contiguous.
        axis : int
            Along which the line runs.

        Returns
        -------
        ndarray (...)
            The sum for this rank.
        """
        here, others = self._others(axis)
        arrived = np.empty_like(parts)
        arrived[here] = parts[here]
        self._exchange([(rank, arrived[k]) for k, rank in others], [(rank, parts[k]) for k, rank in others])
        summed: np.ndarray = arrived.sum(axis=0)
        return summed

    def broadcast(self, x: np.ndarray, size: int, root: int, axis: int) -> np.ndarray:
        """Return the array of one rank on all ranks of a line.

        Parameters
        ----------
        x : ndarray
            The root's array; elsewhere only its dtype counts.
        size : int
            How many numbers the root's array has.
        root : int
            The root's place on the line, from 0.
        axis : int
            Along which the line runs.

        Returns
        -------
        ndarray (size,)
            The root's numbers, flat.
        """
        here, others = self._others(axis)
        flat = np.ascontiguousarray(x).reshape(-1) if here == root else np.empty(size, x.dtype)
        if here == root:
            self._exchange([], [(rank, flat) for _, rank in others])
        else:
            self._exchange([(rank, flat) for k, rank in others if k == root], [])
        return flat

    def reduce(self, x: np.ndarray, root: int, axis: int) -> np.ndarray | None:
        """Return the sum of the arrays of a line on one of its ranks.

        Parameters
        ----------
        x : ndarray
            This rank's, of one shape on the line.
        root : int
            The place on the line of the rank that gets the sum, from 0.
        axis : int
            Along which the line runs.

        Returns
        -------
        ndarray or None
            The sum at the root, None elsewhere.
        """
        here, others = self._others(axis)
        if here != root:
            self._exchange([], [(rank, np.ascontiguousarray(x)) for k, rank in others if k == root])
            return None
        arrived = np.empty((self.side, *x.shape), x.dtype)
        arrived[here] = x
        self._exchange([(rank, arrived[k]) for k, rank in others], [])
        summed: np.ndarray = arrived.sum(axis=0)
        return summed

    def total(self, x: np.ndarray, axis: int) -> np.ndarray:
        """Return the sum of the arrays of a line on all of its ranks.

        Parameters
        ----------
        x : ndarray
            This rank's, of one shape on the line.
        axis : int
            Along which the line runs.

        Returns
        -------
        ndarray
            The sum.
        """
        parts = np.zeros((self.side, -(-x.size // self.side)), x.dtype)
        parts.reshape(-1)[: x.size] = x.reshape(-1)
        return self.gather(self.scatter_sum(parts, axis), axis).reshape(-1)[: x.size].reshape(x.shape)

    def _others(self, axis: int) -> tuple[int, list[tuple[int, int]]]:
        """Return this rank's place on a line, and places and ranks of the others."""
        here = self.at[axis]
        return here, [(k, rank) for k, rank in enumerate(self.line(axis)) if k != here]

    def _exchange(self, receives: Pairs, sends: Pairs) -> None:
        self.ranks.exchange(receives, sends)
        self.numbers += sum(sent.size for _, sent in sends)
        self.messages += len(sends)
