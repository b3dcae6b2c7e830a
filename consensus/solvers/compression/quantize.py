"""Numbers of a few bits."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from consensus import _checks
from consensus.communication import Packed
from consensus.packing import Quantised
from consensus.packing.drawn import generator
from consensus.solvers.compression.base import Compressor, rows_of


@dataclass(frozen=True)
class Quantize(Compressor):
    """Every number of a row as one of 2 m + 1 multiples of ``s / m``, s the row's largest modulus, ``m = 2^(bits - 1) - 1``.

    Rounded at random, up or down, it is unbiased, and

        E |Q(x) - x|^2 <= C |x|^2          C = min((P - 1) / (4 m^2), sqrt(P) / m)

    so that ``omega = 1 - C``: of few bits and many numbers it is no contraction. Rounded to the nearest it always is, with
    ``omega = 1 / (1 + (P - 1) / (4 m^2))``, but it has a bias. A message holds ``ceil(bits P / 8)`` bytes, and s.

    Parameters
    ----------
    bits : int
        From 2 to 16, a number.
    rounding : {"random", "nearest"}
    seed : int
        >= 0. What is drawn depends on it, the agent and the number of its message alone.

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
    >>> from consensus.solvers import Quantize
    >>> round(Quantize(8).omega(1000), 3), round(Quantize(4, "nearest").omega(1000), 3)
    (0.985, 0.164)
    """

    bits: int
    rounding: Literal["random", "nearest"] = "random"
    seed: int = 0

    def __post_init__(self) -> None:
        _checks.count("bits of Quantize", self.bits, least=2, most=16)
        _checks.choice("rounding", self.rounding, ("random", "nearest"))
        _checks.count("seed of Quantize", self.seed, least=0)

    @property
    def unbiased(self) -> bool:  # type: ignore[override]  # an attribute of others
        return self.rounding == "random"

    def omega(self, parameters: int) -> float:
        m = 2 ** (self.bits - 1) - 1
        rounded = (parameters - 1) / (4 * m**2)
        return 1 - min(rounded, math.sqrt(parameters) / m) if self.unbiased else 1 / (1 + rounded)

    def pack(self, rows: np.ndarray, agents: np.ndarray, number: int) -> Packed:
        rows = rows_of(rows)
        if not self.unbiased:
            return Quantised.nearest(rows, self.bits)
        uniform = np.empty(rows.shape)
        for row, agent in zip(uniform, np.asarray(agents).tolist(), strict=True):
            generator(self.seed, agent, number).random(out=row)
        return Quantised.random(rows, self.bits, uniform)
