"""Rows in the form in which agents send them, and as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, Int, UInt8


class Packed(Protocol):
    """A row of numbers for each agent of a block, in the form in which agents send it.

    ``network.mix(round, packed)`` sends :attr:`arrays`, mixes the rows that :meth:`unpack` returns (the agents' own too), and
    counts :attr:`bytes` in the history. Your own form is best a frozen dataclass: the arrays are fields, and so are the values
    that all agents have in common, such as the number of columns.

    All agents must send the same form in one exchange: the same dtypes, and the same shapes but for the number of agents. If
    rows differ in size, the arrays are as wide as the largest row may be, and ``bytes`` is the size of each row.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np, topologies
    >>> from consensus.engines import StackedNetwork
    >>> @dataclass(frozen=True)
    ... class Signs:
    ...     positive: np.ndarray  # uint8 (agents, columns)
    ...     @property
    ...     def arrays(self):
    ...         return (self.positive,)
    ...     @property
    ...     def bytes(self):
    ...         return np.full(len(self.positive), -(-self.positive.shape[1] // 8))
    ...     @property
    ...     def numbers(self):
    ...         return np.full(len(self.positive), self.positive.shape[1])
    ...     @property
    ...     def of(self):
    ...         return Signs
    ...     def unpack(self):
    ...         return 2.0 * self.positive - 1
    >>> network = StackedNetwork(topologies.Static(topologies.complete(2)), np.dtype(float))
    >>> (mean,) = network.mix(0, Signs(np.array([[1, 0, 1], [1, 1, 0]], np.uint8)))
    >>> mean.round(6).tolist(), network.bytes, network.floats
    ([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], 2, 6)
    """

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays that are sent, each (agents, ...)."""

    @property
    def bytes(self) -> Int[np.ndarray, " agents"]:
        """The size of each agent's message in whole bytes, which counts for every edge."""

    @property
    def numbers(self) -> Int[np.ndarray, " agents"]:
        """How many numbers each message stands for, in however few bits: the history's ``floats``."""

    @property
    def of(self) -> Callable[..., Packed]:
        """A method ``of(*arrays)``, which makes the same form of other agents' arrays."""

    def unpack(self) -> Float[np.ndarray, "agents columns"]:
        """Return the rows that the arrays stand for, each computed from its own row of the arrays alone.

        Returns
        -------
        ndarray (agents, columns)
            Rows.
        """


def to_bytes(packed: Packed) -> UInt8[np.ndarray, "agents width"]:
    """Return the arrays of ``packed`` side by side as bytes."""
    return np.concatenate([_flat(array).view(np.uint8) for array in packed.arrays], axis=1)


def from_bytes(rows: UInt8[np.ndarray, "agents width"], packed: Packed) -> Packed:
    """Return the form of which :func:`to_bytes` made ``rows``, given any of the same form."""
    arrays, end = [], 0
    for array in packed.arrays:
        start, end = end, end + _flat(array).shape[1] * array.itemsize
        part = np.ascontiguousarray(rows[:, start:end]).view(array.dtype)
        arrays.append(part.reshape(len(rows), *array.shape[1:]))
    return packed.of(*arrays)


def _flat(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(len(array), -1)
