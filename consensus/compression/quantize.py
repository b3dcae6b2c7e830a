"""Numbers of a few bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.communication.packed import PackedRows, check_dtype
from consensus.compression.base import Compressor, generator, rows_of


@dataclass(frozen=True)
class Quantize(Compressor):
    """Every number of a row as one of 2 m + 1 multiples of ``s / m``, s the row's largest modulus, ``m = 2^(bits - 1) - 1``.

    Random rounding, up or down, is unbiased, and

        E |Q(x) - x|^2 <= C |x|^2          C = min((P - 1) / (4 m^2), sqrt(P) / m)

    so that ``omega = 1 - C``: with few bits and many numbers it is no contraction. Rounding to the nearest always is one, with
    ``omega = 1 / (1 + (P - 1) / (4 m^2))``, but has a bias. A message holds ``ceil(bits P / 8)`` bytes, and s.

    Parameters
    ----------
    bits : int
        Bits per number, from 2 to 16.
    rounding : {"random", "nearest"}
        Rule of rounding.
    seed : int
        Seed of the random rounding, >= 0.

    Raises
    ------
    ValueError
        If a setting is out of range.

    References
    ----------
    Alistarh, Grubic, Li, Tomioka, Vojnovic, "QSGD: communication-efficient SGD via gradient quantization and encoding", NeurIPS
    2017, Lemma 3.1, which has the row's Euclidean norm for s; Liu, Li, Wang, Tang, Yan, "Linear convergent decentralized
    optimization with compression", ICLR 2021, for the largest modulus.

    Examples
    --------
    >>> from consensus.compression import Quantize
    >>> round(Quantize(8).omega(1000), 3), round(Quantize(4, "nearest").omega(1000), 3)
    (0.985, 0.164)
    """

    bits: int
    rounding: Literal["random", "nearest"] = "random"
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", _checks.count("bits of Quantize", self.bits, least=2, most=16))
        _checks.choice("rounding", self.rounding, ("random", "nearest"))
        object.__setattr__(self, "seed", _checks.count("seed of Quantize", self.seed, least=0))

    @property
    def unbiased(self) -> bool:  # type: ignore[override]  # an attribute of others
        """True if rounding is random."""
        return self.rounding == "random"

    def omega(self, parameters: int) -> float:
        m = _most(self.bits)
        rounded = (parameters - 1) / (4 * m**2)
        return 1 - min(rounded, math.sqrt(parameters) / m) if self.unbiased else 1 / (1 + rounded)

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        if not self.unbiased:
            return Quantized.nearest(rows, self.bits)
        uniform = np.empty(rows_of(rows).shape)
        for row, agent in zip(uniform, np.asarray(agents).tolist(), strict=True):
            generator(self.seed, agent, number).random(out=row)
        return Quantized.random(rows, self.bits, uniform)


@dataclass(frozen=True, eq=False)
class Quantized(PackedRows):
    """Rows as codes of a few bits: multiples of a scale of each row.

    With b bits a number is one of the ``2 m + 1`` values ``-s, ..., -s / m, 0, s / m, ..., s``, ``m = 2^(b - 1) - 1``, s the
    row's scale. A message holds ``ceil(b P / 8)`` bytes of codes and the scale, in the dtype of the rows.

    Parameters
    ----------
    codes : ndarray of uint8 (agents, bytes)
        Codes 0 .. 2 m of a row one after another, the lowest bit of each first.
    scale : ndarray (agents, 1)
        Scale s >= 0.
    columns : int
        P.
    bits : int
        Bits per code, from 2 to 16.

    Raises
    ------
    ValueError, TypeError
        If shapes or dtypes are wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.compression import Quantized
    >>> rows = np.array([[3.0, -5.0, 1.0, 0.5], [0.0, 2.0, 4.0, -1.0]])
    >>> quantised = Quantized.nearest(rows, bits=3)
    >>> 3 * quantised.unpack()
    array([[ 10., -15.,   5.,   0.],
           [  0.,   8.,  12.,  -4.]])
    >>> quantised.bytes
    array([10, 10])
    """

    codes: np.ndarray
    scale: np.ndarray
    columns: int
    bits: int

    sent = ("codes", "scale")

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _checks.count("columns of Quantized", self.columns))
        object.__setattr__(self, "bits", _checks.count("bits of Quantized", self.bits, least=2, most=16))
        object.__setattr__(self, "scale", _checks.floats("scale of Quantized", self.scale))
        check_dtype("codes of Quantized", self.codes, np.uint8)
        width = -(-self.columns * self.bits // 8)
        if self.codes.shape[1:] != (width,) or self.scale.shape != (len(self.codes), 1):
            raise ValueError(
                f"codes and scale of Quantized must have shapes (agents, {width}) and (agents, 1) for {self.columns} columns "
                f"of {self.bits} bits; got {self.codes.shape} and {self.scale.shape}"
            )

    @classmethod
    def nearest(cls, rows: np.ndarray, bits: int) -> Quantized:
        """Round each number to the nearest code; the row's largest modulus is its scale.

        A row with a NaN or an infinity unpacks to NaN, so that a diverging run is seen to diverge.

        Parameters
        ----------
        rows : ndarray (agents, P)
            Rows of floats.
        bits : int
            Bits per number, from 2 to 16.

        Returns
        -------
        Quantized
            The rounded rows.
        """
        return cls.random(rows, bits, None)

    @classmethod
    def random(cls, rows: np.ndarray, bits: int, uniform: np.ndarray | None) -> Quantized:
        """Round up or down at random, so that the expectation of a number is the number.

        Parameters
        ----------
        rows : ndarray (agents, P)
            Rows of floats.
        bits : int
            Bits per number, from 2 to 16.
        uniform : ndarray (agents, P), optional
            Draws from the uniform distribution on [0, 1); None rounds to the nearest.

        Returns
        -------
        Quantized
            The rounded rows.
        """
        rows, bits = rows_of(rows), _checks.count("bits", bits, least=2, most=16)
        most = _most(bits)
        if uniform is not None:
            uniform = _checks.floats("uniform", uniform)
            if uniform.shape != rows.shape:
                raise ValueError(f"uniform must have the shape of rows, {rows.shape}; got {uniform.shape}")
        scale = np.abs(rows).max(axis=1, keepdims=True)
        finite = np.isfinite(scale)
        scale = np.where(finite, scale, rows.dtype.type(np.nan))
        steps = np.where(finite, rows, 0) / np.where(scale > 0, scale, 1) * most
        steps = np.rint(steps) if uniform is None else np.floor(steps + uniform)
        codes = np.minimum(steps + most, 2 * most).astype("<u2")
        return cls(_packed(codes, bits), scale, rows.shape[1], bits)

    @property
    def numbers(self) -> np.ndarray:
        return np.full(len(self.codes), self.columns)

    def unpack(self) -> np.ndarray:
        codes, dtype, most = _unpacked(self.codes, self.columns, self.bits), self.scale.dtype, _most(self.bits)
        rows: np.ndarray = (codes.astype(dtype) - dtype.type(most)) * (self.scale / dtype.type(most))
        return rows


def _most(bits: int) -> int:
    """Return the largest code's distance from zero's."""
    return (1 << (bits - 1)) - 1


def _packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Return codes (agents, P), of 16 bits each, as bytes (agents, ceil(bits P / 8)), the lowest bit first."""
    agents, columns = codes.shape
    each, size, word = _words(bits)
    if word is None:  # bit by bit, which takes many times as long
        places = np.unpackbits(codes.view(np.uint8).reshape(agents, columns, 2), axis=2, bitorder="little")[:, :, :bits]
        return np.packbits(places.reshape(agents, columns * bits), axis=1, bitorder="little")
    groups = -(-columns // each)
    words = np.zeros((agents, groups), word)
    for k in range(each):
        part = codes[:, k::each].astype(word)
        words[:, : part.shape[1]] |= part << word.type(k * bits)
    sent = words.view(np.uint8).reshape(agents, groups, word.itemsize)[:, :, :size].reshape(agents, groups * size)
    return np.ascontiguousarray(sent[:, : -(-columns * bits // 8)])


def _unpacked(sent: np.ndarray, columns: int, bits: int) -> np.ndarray:
    """Return the codes (agents, columns) of which :func:`_packed` made ``sent``."""
    agents, (each, size, word) = len(sent), _words(bits)
    if word is None:
        places = np.zeros((agents, columns, 16), np.uint8)
        found = np.unpackbits(sent, axis=1, count=columns * bits, bitorder="little")
        places[:, :, :bits] = found.reshape(-1, columns, bits)
        return np.packbits(places, axis=2, bitorder="little").view("<u2")[:, :, 0]
    groups = -(-columns // each)
    whole = np.zeros((agents, groups * size), np.uint8)
    whole[:, : sent.shape[1]] = sent
    places = np.zeros((agents, groups, word.itemsize), np.uint8)
    places[:, :, :size] = whole.reshape(agents, groups, size)
    words, codes = places.view(word)[:, :, 0], np.empty((agents, groups * each), "<u2")
    for k in range(each):
        codes[:, k::each] = (words >> word.type(k * bits)) & word.type((1 << bits) - 1)
    return codes[:, :columns]


def _words(bits: int) -> tuple[int, int, np.dtype | None]:
    """Return how many codes fill whole bytes, the number of these bytes, and an unsigned integer type that holds them."""
    each = 8 // math.gcd(bits, 8)
    size = each * bits // 8
    return each, size, np.dtype(f"<u{1 << (size - 1).bit_length()}") if size <= 8 else None
