"""What methods that send compressed differences share."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.compression.base import Compressor, compressor_of
from consensus.problems import BaseProblem, Minibatches
from consensus.solvers.base import Solver
from consensus.solvers.bounds import lowest_eigenvalue, refuse_batches, steepest
from consensus.step_sizes import Rule
from topologies.schedules import ScheduleLike


class Memory(NamedTuple):
    """What neighbours know of an agent's rows, ``sent``, and ``mixed``, the W times that of them: both (agents, P).

    Nobody sends H itself: all add up what was sent of it. So W must stay as it is.
    """

    sent: np.ndarray
    mixed: np.ndarray

    @classmethod
    def empty(cls, rows: np.ndarray) -> "Memory":
        """That of a beginning: zeros, known to all."""
        return cls(np.zeros_like(rows), np.zeros_like(rows))

    def plus(self, news: "Memory", part: float = 1.0) -> "Memory":
        """This and ``part`` times the ``news``."""
        return Memory(self.sent + part * news.sent, self.mixed + part * news.mixed)

    def pull(self) -> np.ndarray:
        """``(W - I) H``."""
        return self.mixed - self.sent


@dataclass(frozen=True)
class CompressedMethod(Solver):
    """A method on a static W whose agents send ``Q(x - H)``, and all remember H, the sum of what was sent.

    H grows by b Q(x - H). Where Q is unbiased, with ``E |Q(x) - x|^2 <= C |x|^2``, ``b = 1 / (1 + C)``: b Q contracts with
    ``omega = b`` however large C is. Else b = 1.

    Parameters
    ----------
    compressor : Compressor
    step_size : float or rule, optional
    gamma : float, optional
        The step towards neighbours, in (0, 1]; by default ``min(1, omega / (1 - lmin(W)))``.
    batch : int or Minibatches, optional
    """

    compressor: Compressor
    step_size: float | Rule | None = None
    gamma: float | None = None
    batch: int | Minibatches | None = None

    exchanges_a_round = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        compressor_of(self.compressor)
        object.__setattr__(self, "gamma", _checks.optional_number("gamma", self.gamma, above=0, most=1))

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        self.compressor.check(problem)

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        compressor = self.compressor.prepared(_checks.problem(problem))
        gamma = self._found_gamma(compressor, problem, network)
        return super(CompressedMethod, replace(self, compressor=compressor, gamma=gamma)).prepared(problem, network)

    def gamma_for(self, omega: float, network: ScheduleLike) -> float:
        """The step towards neighbours where none was given; of six digits, as the other one."""
        return gamma_for(omega, network)

    def cautious_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        """``gamma / (4 L)``, for methods that track gradients; TypeError with a batch."""
        refuse_batches(self)
        compressor = self.compressor.prepared(_checks.problem(problem))
        return self._found_gamma(compressor, problem, network) / (4 * steepest(problem, network))

    def _found_gamma(self, compressor, problem, network):
        if self.gamma is not None:
            return self.gamma
        return float(f"{self.gamma_for(omega(compressor, problem.parameters), network):.6g}")

    def send(self, problem: BaseProblem, network: Network, round: int, *differences: np.ndarray) -> list[Memory]:
        """What is sent of each of the ``differences`` (agents, P), and W times that: one exchange."""
        numbers = range(len(differences) * round, len(differences) * (round + 1))
        packed = [self.compressor.pack(rows, problem.rows, n) for rows, n in zip(differences, numbers, strict=True)]
        mixed = network.mix(round, *packed)
        return [Memory(own.unpack(), theirs) for own, theirs in zip(packed, mixed, strict=True)]

    def share(self, problem: BaseProblem) -> float:
        """By what messages are multiplied before they are remembered, in (0, 1]."""
        return share(self.compressor, problem.parameters)


def share(compressor: Compressor, parameters: int) -> float:
    """By what messages are multiplied to contract: ``1 / (1 + C) = 1 / (2 - omega)`` if they are unbiased, else 1."""
    return 1 / (2 - compressor.omega(parameters)) if compressor.unbiased else 1.0


def omega(compressor: Compressor, parameters: int) -> float:
    """The contraction constant of messages that are multiplied so; ValueError if it is not positive."""
    found = share(compressor, parameters) if compressor.unbiased else compressor.omega(parameters)
    if not found > 0:
        raise ValueError(f"{compressor} is no contraction of {parameters} parameters (omega = {found:.3g}): give gamma=")
    return found


def gamma_for(omega: float, network: ScheduleLike) -> float:
    """``min(1, omega / (1 - lmin(W)))``: on all networks tried, and with all compressors, at most half of what diverged."""
    return min(1.0, omega / (1 - lowest_eigenvalue(network)))
