"""Compressors that send k entries of a row."""

from dataclasses import dataclass
from numbers import Integral, Real

from consensus import _checks
from consensus.compression.base import Compressor
from consensus.problems import BaseProblem


@dataclass(frozen=True)
class SomeEntries(Compressor):
    """The base class of compressors that send k of P entries, a number or a fraction: ``omega = k / P``."""

    k: float

    def __post_init__(self) -> None:
        number = isinstance(self.k, Integral) and not isinstance(self.k, bool)
        fraction = isinstance(self.k, Real) and not isinstance(self.k, Integral)
        if not ((number and self.k >= 1) or (fraction and 0 < self.k <= 1)):
            allowed = "a number of entries, a whole number >= 1, or a fraction of them, a float in (0, 1]"
            raise ValueError(f"k of {type(self).__name__} must be {allowed}; got {_checks.shown(self.k)}")
        object.__setattr__(self, "k", int(self.k) if number else float(self.k))

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        self.entries(problem.parameters)

    def omega(self, parameters: int) -> float:
        return self.entries(parameters) / parameters

    def entries(self, parameters: int) -> int:
        """Return the number of entries of P = ``parameters`` that are sent: k, or the rounded fraction of P, at least one.

        If k is above P it raises a ``ValueError``.
        """
        parameters = _checks.count("parameters", parameters)
        if isinstance(self.k, float):
            return max(1, round(self.k * parameters))
        if self.k > parameters:
            raise ValueError(f"k of {type(self).__name__} must be at most the number of parameters, {parameters}; got {self.k}")
        return self.k
