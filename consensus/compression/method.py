"""The base classes of methods that send compressed differences."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.compression.base import Compressor, compressor_of
from consensus.problems import BaseProblem, Minibatches
from consensus.problems.minibatches import draw
from consensus.solvers.base import Solver
from consensus.solvers.bounds import refuse_batches, six_digits, spread, steepest
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule
from topologies.schedules import ScheduleLike


class Memory(NamedTuple):
    """The sum H of an agent's messages, ``sent``, and ``mixed``, W times that of all agents: both (agents, P).

    H itself is never sent: everyone adds up the messages, so W must be static.
    """

    sent: np.ndarray
    mixed: np.ndarray

    @classmethod
    def empty(cls, rows: np.ndarray) -> "Memory":
        """Return the memory before the first message: zeros."""
        return cls(np.zeros_like(rows), np.zeros_like(rows))

    def plus(self, message: "Memory", weight: float = 1.0) -> "Memory":
        """Return the memory with ``weight`` times a ``message`` added."""
        return Memory(self.sent + weight * message.sent, self.mixed + weight * message.mixed)

    def difference(self) -> np.ndarray:
        """Return ``(W - I) H``."""
        difference: np.ndarray = self.mixed - self.sent
        return difference


@dataclass(frozen=True)
class CompressedMethod(Solver):
    """A method on a static W whose agents send ``Q(x - H)``, and all remember H, the sum of what was sent.

    H grows by b Q(x - H). If Q is unbiased, with ``E |Q(x) - x|^2 <= C |x|^2``, then ``b = 1 / (1 + C)``: b Q contracts with
    ``omega = b`` however large C is. Otherwise b = 1. ``gamma`` is ``min(1, omega / (1 - lmin(W)))`` by default.
    """

    compressor: Compressor
    step_size: float | Rule | None = None
    gamma: float | None = field(default=None, metadata={"above": 0, "most": 1})
    batch: int | Minibatches | None = None

    exchanges_a_round = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        compressor_of(self.compressor)

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        self.compressor.check(problem)

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        compressor, gamma = self.compressor.prepared(_checks.problem(problem)), self.gamma
        if gamma is None:
            gamma = six_digits(self.gamma_for(omega(compressor, problem.parameters), network))
        return super(CompressedMethod, replace(self, compressor=compressor, gamma=gamma)).prepared(problem, network)

    def gamma_for(self, omega: float, network: ScheduleLike) -> float:
        """Return the default of ``gamma``, not yet rounded to six digits, for messages with contraction constant ``omega``."""
        return gamma_for(omega, network)

    def send(self, problem: BaseProblem, network: Network, round: int, *differences: np.ndarray) -> list[Memory]:
        """Send a compressed message of each of the differences ``x - H``, in one exchange; return them, and W times them."""
        numbers = range(len(differences) * round, len(differences) * (round + 1))
        packed = [self.compressor.pack(rows, problem.rows, n) for rows, n in zip(differences, numbers, strict=True)]
        mixed = network.mix(round, *packed)
        return [Memory(own.unpack(), theirs) for own, theirs in zip(packed, mixed, strict=True)]


class TrackingState(NamedTuple):
    """Iterates w, trackers y, tracked gradients or their averages, all (agents, P); memories of iterates and trackers."""

    round: int
    w: np.ndarray
    y: np.ndarray
    gradient: np.ndarray
    known_w: Memory
    known_y: Memory


@dataclass(frozen=True)
class CompressedTracking(CompressedMethod):
    """Gradient tracking by compressed differences of iterates and trackers, which travel together."""

    needs = Needs(regularizer="smooth", static=True)
    sends = "w, y"
    default = "gamma / (4 L)"

    def stable_step(self, problem: BaseProblem, network: ScheduleLike) -> float:
        refuse_batches(self)
        ready = replace(self, step_size=1.0).prepared(problem, network)
        assert ready.gamma is not None, "prepared finds it"
        return ready.gamma / (4 * steepest(problem, network))

    def init(self, problem: BaseProblem, w: np.ndarray) -> TrackingState:
        gradient = _checks.problem(problem).average_gradient(w, draw(self.batch, problem, 0))
        return TrackingState(0, w, gradient, gradient, Memory.empty(w), Memory.empty(w))


def memory_weight(compressor: Compressor, parameters: int) -> float:
    """Return b, with which b Q contracts: ``1 / (1 + C) = 1 / (2 - omega)`` if Q is unbiased, else 1."""
    return 1 / (2 - compressor.omega(parameters)) if compressor.unbiased else 1.0


def omega(compressor: Compressor, parameters: int) -> float:
    """Return the contraction constant of b Q; raise ``ValueError`` if it is not positive."""
    found = memory_weight(compressor, parameters) if compressor.unbiased else compressor.omega(parameters)
    if not found > 0:
        raise ValueError(f"{compressor} is no contraction of {parameters} parameters (omega = {found:.3g}): give gamma=")
    return found


def gamma_for(omega: float, network: ScheduleLike) -> float:
    """Return ``min(1, omega / (1 - lmin(W)))``: in experiments, at most half of what diverged."""
    return min(1.0, omega / spread(network))
