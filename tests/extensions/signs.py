"""Rows sent as signs, a form written from the documentation of Packed alone."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Signs:
    """Signs of P numbers, a bit each, times the row's mean modulus."""

    bits: np.ndarray
    scale: np.ndarray
    columns: int

    @classmethod
    def of_rows(cls, rows):
        return cls(np.packbits(rows >= 0, axis=1), np.abs(rows).mean(axis=1, keepdims=True), rows.shape[1])

    arrays = property(lambda self: (self.bits, self.scale))
    numbers = property(lambda self: np.full(len(self.bits), self.columns))
    bytes = property(lambda self: np.full(len(self.bits), self.bits.shape[1] + self.scale.itemsize))

    def of(self, bits, scale):
        return replace(self, bits=bits, scale=scale)

    def unpack(self):
        return np.where(np.unpackbits(self.bits, axis=1, count=self.columns), self.scale, -self.scale)
