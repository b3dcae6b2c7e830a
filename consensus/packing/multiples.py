"""Whole multiples of a step, in as few bits as they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from consensus import _checks
from consensus._parallel import for_chunks
from consensus._rows import empty

_BITS = 40  # of a code, at most


@dataclass(frozen=True, eq=False)
class Multiples:
    """Blocks of columns, the numbers of which are whole multiples of a step that each agent has of its own.

    A column whose codes are at most m in modulus takes ``floor(log2 m) + 2`` bits a number, none if all are zero. A message
    holds the step (8 bytes), how many bits each column takes (a byte), and the columns, each filled up to whole bytes.

    Parameters
    ----------
    codes : ndarray (agents, P, columns)
        Whole numbers below 2^40 in modulus, as floats.
    step : ndarray (agents,)
        > 0.

    Raises
    ------
    ValueError, TypeError
        If the arrays do not belong together.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.packing import Multiples
    >>> block = np.array([[[0.1, 0.0, -4.1], [0.9, 0.3, 7.0]]])
    >>> multiples = Multiples.nearest(block, np.array([0.5]))
    >>> multiples.values
    array([[[ 0. ,  0. , -4. ],
            [ 1. ,  0.5,  7. ]]])
    >>> multiples.bytes
    array([15])
    """

    codes: np.ndarray
    step: np.ndarray

    def __post_init__(self) -> None:
        codes, step = _belonging(self.codes, self.step, "codes", "step")
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "step", step)

    @classmethod
    def nearest(cls, blocks: np.ndarray, step: np.ndarray) -> Multiples:
        """The ``blocks`` (agents, P, columns) rounded to multiples of ``step`` (agents,), or of 2^k times that.

        The factor, usually one, is the least for which codes are not too long. A block that holds a NaN or an infinity becomes
        all NaN: a run that diverges is seen to diverge.
        """
        blocks, step = _belonging(blocks, step, "blocks", "step")
        codes, used = empty(blocks.shape, np.dtype(float)), np.empty(len(step))

        def chunk(rows):
            part = blocks[rows].reshape(len(codes[rows]), -1)
            ratio = np.maximum(part.max(axis=1, initial=0), -part.min(axis=1, initial=0)) / step[rows]
            finite = np.isfinite(ratio)
            excess = np.frexp(np.where(finite, ratio, 0))[1] - (_BITS - 1)
            used[rows] = np.where(finite, np.ldexp(step[rows], np.maximum(excess, 0)), np.nan)
            unit = np.where(finite, used[rows], 1)[:, None, None]
            np.rint(np.divide(blocks[rows], unit, out=codes[rows], dtype=codes.dtype), out=codes[rows])
            codes[rows][~finite] = 0

        for_chunks(chunk, len(blocks), (blocks.nbytes + codes.nbytes) // max(1, len(codes)))
        return cls(codes, used)

    @property
    def values(self) -> np.ndarray:
        """The blocks (agents, P, columns) that they stand for."""
        values: np.ndarray = self.codes * self.step[:, None, None]
        return values

    @property
    def bytes(self) -> np.ndarray:
        """How long each agent's message is (agents,)."""
        return length(largest(self.codes), self.codes.shape[1])

    def messages(self) -> list[np.ndarray]:
        """What each agent sends: an array of bytes each, of the lengths :attr:`bytes`."""
        widths = bits(largest(self.codes))
        parts = [[step, width] for step, width in zip(self.step[:, None].view(np.uint8), widths.astype(np.uint8), strict=True)]
        columns = {b: _to_bytes(self.codes.swapaxes(1, 2)[widths == b], b) for b in np.unique(widths).tolist() if b}
        taken = dict.fromkeys(columns, 0)
        for own, width in zip(parts, widths.tolist(), strict=True):
            for b in filter(None, width):
                own.append(columns[b][taken[b]])
                taken[b] += 1
        return [np.concatenate(own) for own in parts]

    @classmethod
    def of_messages(cls, messages: Sequence[np.ndarray], parameters: int, columns: int) -> Multiples:
        """What :meth:`messages` made them of, blocks of (``parameters``, ``columns``)."""
        step = np.array([message[:8].copy().view(float)[0] for message in messages])
        widths = np.array([message[8 : 8 + columns] for message in messages], int).reshape(-1, columns)
        ends = 8 + columns + np.cumsum(-(-parameters * widths // 8), axis=1)
        codes = np.zeros((len(messages), columns, parameters))
        for b in np.unique(widths).tolist():
            if b:
                places = np.argwhere(widths == b).tolist()
                size = -(-parameters * b // 8)
                rows = np.stack([messages[agent][(end := ends[agent, column]) - size : end] for agent, column in places])
                codes[widths == b] = _from_bytes(rows, b, parameters)
        return cls(codes.swapaxes(1, 2), step)


def _belonging(blocks, step, *names):
    blocks, step = (_checks.floats(f"{name} of Multiples", value) for name, value in zip(names, (blocks, step), strict=True))
    if blocks.ndim != 3 or step.shape != blocks.shape[:1]:
        raise ValueError(
            f"{names[0]} of Multiples must have shape (agents, P, columns) and {names[1]} (agents,); "
            f"got {blocks.shape} and {step.shape}"
        )
    return blocks, step


def largest(numbers: np.ndarray) -> np.ndarray:
    """The largest modulus along the second axis of (agents, P, columns): of halves, as NumPy is slow on short rows."""
    moduli = np.abs(numbers)
    left = moduli.shape[1]
    while left > 1:
        half = left // 2
        np.maximum(moduli[:, :half], moduli[:, left - half : left], out=moduli[:, :half])
        left -= half
    return moduli[:, 0]


def bits(largest: np.ndarray) -> np.ndarray:
    """How many bits a code takes in columns whose codes are at most ``largest`` in modulus."""
    return np.where(largest > 0, np.frexp(largest)[1] + 1, 0)


def length(largest: np.ndarray, parameters: int) -> np.ndarray:
    """The bytes (agents,) of messages with such columns, ``largest`` (agents, columns), of ``parameters`` numbers each."""
    lengths: np.ndarray = 8 + largest.shape[1] + (-(-parameters * bits(largest) // 8)).sum(axis=1)
    return lengths


def _to_bytes(codes, b):
    """Columns of codes (count, P) in b bits each, as bytes (count, ceil(b P / 8)): two's complement, the lowest bit first."""
    small = np.ascontiguousarray(codes.astype(_kind(b)))
    places = np.unpackbits(small.view(np.uint8).reshape(*small.shape, -1), axis=2, bitorder="little")[:, :, :b]
    return np.packbits(places.reshape(len(small), -1), axis=1, bitorder="little")


def _from_bytes(rows, b, parameters):
    kind = np.dtype(_kind(b))
    places = np.unpackbits(rows, axis=1, count=parameters * b, bitorder="little").reshape(len(rows), parameters, b)
    whole = np.repeat(places[:, :, -1:], 8 * kind.itemsize, axis=2)  # the sign goes on to the left
    whole[:, :, :b] = places
    return np.packbits(whole, axis=2, bitorder="little").view(kind)[:, :, 0]


def _kind(b):
    """The integers that hold codes of b bits."""
    return "<i1" if b <= 8 else "<i2" if b <= 16 else "<i8"
