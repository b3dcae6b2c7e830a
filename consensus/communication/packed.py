"""What a packed row is, and its way through an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np


class Packed(Protocol):
    """A row of numbers for each agent of a block, in the form in which agents send it.

    ``network.mix(round, packed)`` sends :attr:`arrays` instead of numbers of the problem's dtype, mixes what :meth:`unpack`
    makes of the neighbours' (and of an agent's own) and counts :attr:`bytes` in the history. One's own form is best a frozen
    dataclass whose arrays are fields, with what all agents have in common, as the number of columns, beside them.

    All agents must send the same form in one exchange: equal shapes but for the number of agents, equal dtypes. Where rows
    differ in size, the arrays are as wide as the largest may be, and ``bytes`` tells what of a row is really sent.
    """

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """What is sent, each (agents, ...), a row an agent."""

    @property
    def bytes(self) -> np.ndarray:
        """The size (agents,) of each agent's message, in whole bytes; every edge that it goes over costs as many."""

    @property
    def numbers(self) -> np.ndarray:
        """How many numbers (agents,) each message is about, however short they are written: the history's ``floats``."""

    @property
    def of(self) -> Callable[..., Packed]:
        """A method ``of(*arrays)``: the same form of other agents, made of their arrays."""

    def unpack(self) -> np.ndarray:
        """The rows (agents, columns) that the arrays stand for, each from its own row of them alone."""


def to_bytes(packed: Packed) -> np.ndarray:
    """The arrays of ``packed`` side by side as bytes: shape (agents, width), dtype uint8."""
    return np.concatenate([_flat(array).view(np.uint8) for array in packed.arrays], axis=1)


def from_bytes(rows: np.ndarray, packed: Packed) -> Packed:
    """What :func:`to_bytes` made ``rows`` of, given anything of the same form.

    Examples
    --------
    >>> from consensus.compression import Sparse
    >>> import numpy as np
    >>> from consensus.communication.packed import from_bytes, to_bytes
    >>> sparse = Sparse.largest(np.array([[3.0, -5.0, 1.0], [0.0, 2.0, 4.0]]), 1)
    >>> from_bytes(to_bytes(sparse)[1:], sparse).unpack()
    array([[0., 0., 4.]])
    """
    arrays, end = [], 0
    for array in packed.arrays:
        start, end = end, end + _flat(array).shape[1] * array.itemsize
        part = np.ascontiguousarray(rows[:, start:end]).view(array.dtype)
        arrays.append(part.reshape(len(rows), *array.shape[1:]))
    return packed.of(*arrays)


def _flat(array):
    return np.ascontiguousarray(array).reshape(len(array), -1)
