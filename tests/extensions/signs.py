"""A compressor, and the form of its messages, written from the documentation of Compressor and Packed alone."""

from dataclasses import dataclass, replace

import numpy as np

from consensus.compression import Compressor


@dataclass(frozen=True)
class Sign(Compressor):
    """Signs of the entries, times the row's mean modulus: ``|Q(x) - x|^2 <= (1 - 1/P) |x|^2``."""

    def omega(self, parameters):
        return 1 / parameters

    def pack(self, rows, agents, number):
        bits, scale = np.packbits(rows >= 0, axis=1), np.abs(rows).mean(axis=1, keepdims=True)
        return Signs(bits, scale, rows.shape[1])


@dataclass(frozen=True, eq=False)
class Signs:
    """Signs of P numbers, a bit each, times a scale of the row."""

    bits: np.ndarray
    scale: np.ndarray
    columns: int

    arrays = property(lambda self: (self.bits, self.scale))
    numbers = property(lambda self: np.full(len(self.bits), self.columns))
    bytes = property(lambda self: np.full(len(self.bits), self.bits.shape[1] + self.scale.itemsize))

    def of(self, bits, scale):
        return replace(self, bits=bits, scale=scale)

    def unpack(self):
        return np.where(np.unpackbits(self.bits, axis=1, count=self.columns), self.scale, -self.scale)
