"""Packed messages: their form, and its coding as bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike

from consensus import _checks

if TYPE_CHECKING:
    from jaxtyping import Float, Int, UInt8


class Codec(Protocol):
    """A format of messages for sums over a tree: rows of float64 to bytes, and back to the last bit.

    Zeros have no sign: -0.0 may be decoded as 0.0.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import IntegerRows
    >>> codec, row = IntegerRows(3), np.array([3.0, 0.0, -70000.0])
    >>> message = np.frombuffer(codec.encode(row), np.uint8)
    >>> codec.decode(message, 3)[0].tolist(), len(message) < row.nbytes, len(message) <= codec.most(3)
    ([3.0, 0.0, -70000.0], True, True)
    """

    def sizes(self, rows: Float[np.ndarray, "agents n"]) -> Int[np.ndarray, " agents"]:
        """Return the counted bytes of each row's message.

        Parameters
        ----------
        rows : ndarray (agents, n)
            Numbers to be sent.

        Returns
        -------
        ndarray of int (agents,)
            Sizes.
        """

    def encode(self, row: Float[np.ndarray, " n"]) -> bytes:
        """Return the message of a row.

        Parameters
        ----------
        row : ndarray (n,)
            Numbers to be sent.

        Returns
        -------
        bytes
            The message.
        """

    def decode(self, message: UInt8[np.ndarray, " size"], columns: int) -> tuple[Float[np.ndarray, " columns"], int]:
        """Return the row at the beginning of a message, and the bytes that it takes there.

        Parameters
        ----------
        message : ndarray of uint8
            Other rows or unused bytes may follow.
        columns : int
            Length of the row.

        Returns
        -------
        tuple of ndarray (columns,) and int
            The row, and the size of its message.
        """

    def most(self, columns: int) -> int:
        """Return the largest size of a message.

        Parameters
        ----------
        columns : int
            Length of the row.

        Returns
        -------
        int
            In bytes.
        """


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
        """Length of the row that each message stands for, however few bits it has: the history's ``floats``."""

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


@dataclass(frozen=True, eq=False)
class PackedRows(ABC):
    """Base class of :class:`consensus.communication.Packed` rows whose message is some of their fields, named in ``sent``.

    These are arrays (agents, n); the other fields are the same for all agents.
    """

    sent: ClassVar[tuple[str, ...]]

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Arrays that are sent, each (agents, n)."""
        return tuple([getattr(self, name) for name in self.sent])

    @property
    def numbers(self) -> np.ndarray:
        """Length of each agent's message in numbers, shape (agents,)."""
        first = self.arrays[0]
        return np.full(len(first), first.shape[1])

    @property
    def bytes(self) -> np.ndarray:
        """Size of each message (agents,)."""
        arrays = self.arrays
        return np.full(len(arrays[0]), sum(array.shape[1] * array.itemsize for array in arrays))

    def of(self, *arrays: np.ndarray) -> Self:
        """Return the same form with the messages of other agents, whose :attr:`arrays` (agents, n) are given."""
        return replace(self, **dict(zip(self.sent, arrays, strict=True)))

    @abstractmethod
    def unpack(self) -> np.ndarray:
        """Return the rows (agents, P) that the messages stand for, in the dtype in which they were packed."""


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


def check_dtype(name: str, array: object, dtype: DTypeLike) -> None:
    """Raise ``TypeError`` unless ``array`` is an array of that dtype."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        raise TypeError(f"{name} must be an array of {np.dtype(dtype)}; got {_checks.shown(array)}")
