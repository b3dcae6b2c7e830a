"""Another solver whose messages are compressed, with error feedback."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.sparse as sp

from consensus import _checks
from consensus.communication import Packed
from consensus.communication.network import Network
from consensus.compression.base import Compressor, compressor_of
from consensus.compression.method import Memory, gamma_for, memory_weight, omega
from consensus.compression.remembering import Exchange, RememberingState, RememberingWrapper
from consensus.problems import BaseProblem
from consensus.solvers.bounds import six_digits
from topologies.schedules import ScheduleLike, is_static


@dataclass(frozen=True)
class Compressed(RememberingWrapper):
    """Another solver with compressed messages, and error feedback, wherever it mixes.

    Every vector x that the solver mixes has a memory H of what was sent of it, zero at first. W x is replaced by

        H+ = H + b Q(x - H)          x + gamma (W - I) H+

    so that the next message contains what Q has lost. With Q(x) = x that is ``(1 - gamma) x + gamma W x``: a slower network.
    Sums over agents do not depend on Q: trackers keep their mean, and methods their limits. Masses, as of :class:`SONATA`, are
    sent uncompressed. W must be static: on a graph that changes, the agents never agree.

    Parameters
    ----------
    solver : Solver
        Solver that exchanges by ``network.mix``, such as :class:`NEXT`, :class:`SONATA` or :class:`GradientTracking`, with a
        step size: smaller than without compression, gamma times as large for a start.
    compressor : Compressor
        Q, which determines b: see :class:`ChocoSGD`.
    gamma : float, optional
        Step towards neighbours, in (0, 1]; ``min(1, omega / (1 - lmin(W)))`` by default.

    Raises
    ------
    TypeError
        If ``solver`` cannot be wrapped, or ``compressor`` is no compressor.
    ValueError
        If ``gamma`` is out of range.

    References
    ----------
    Koloskova, Stich, Jaggi, "Decentralized stochastic optimization and gossip algorithms with compressed communication", ICML
    2019, Algorithm 1 (CHOCO-Gossip), in place of each exchange.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.compression import TopK
    >>> from consensus.solvers import NEXT
    >>> from consensus.surrogates import FullLinearization
    >>> from consensus.solvers import Compressed
    >>> centres = np.arange(5.0)[:, None] * np.ones(10)
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=10,
    ...     regularizer=consensus.L1(5.0))
    >>> solver = Compressed(NEXT(FullLinearization(tau=10.0), 0.1), TopK(0.3))
    >>> result = consensus.solve(problem, topologies.ring(5), solver, rounds=400, record_every=100)
    >>> bool(abs(result.w - 1.5).max() < 1e-8)
    True
    """

    compressor: Compressor
    gamma: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        compressor_of(self.compressor)
        object.__setattr__(self, "gamma", _checks.optional_number("gamma", self.gamma, above=0, most=1))

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        self.compressor.check(problem)

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        compressor, gamma = self.compressor.prepared(_checks.problem(problem)), self.gamma
        if gamma is None:
            gamma = six_digits(gamma_for(omega(compressor, problem.parameters), network))
        return super(Compressed, replace(self, compressor=compressor, gamma=gamma)).prepared(problem, network)

    def matrices(self, network: ScheduleLike) -> ScheduleLike:
        return _Slower(network, 1.0 if self.gamma is None else self.gamma)

    def memory(self, problem: BaseProblem, w: np.ndarray) -> Memory:
        return Memory.empty(np.zeros_like(w, shape=(len(w), self.vectors, problem.parameters)))

    def exchange(self, problem: BaseProblem, network: Network, state: RememberingState) -> Exchange:
        return _ErrorFeedback(self, problem, network, state)


class _ErrorFeedback(Exchange):
    """A network that mixes the memories of messages."""

    def __init__(self, wrapper: Compressed, problem: BaseProblem, network: Network, state: RememberingState) -> None:
        super().__init__(wrapper, problem, network, state)
        self.compressor, self.gamma = wrapper.compressor, wrapper.gamma

    def mix(self, round: int, *blocks: np.ndarray | Packed, beside: int = 0) -> tuple[np.ndarray, ...]:
        assert self.gamma is not None, "prepared finds it"
        arrays, b = [self.array(block) for block in blocks], memory_weight(self.compressor, self.problem.parameters)
        sent: list[np.ndarray | Packed] = []
        places: list[int | None] = []
        for block in arrays:
            place = self.place() if self.is_vector(block) else None
            places.append(place)
            row = block.astype(self.network.dtype, copy=False)
            if place is None:
                sent.append(row)
                continue
            number = self.wrapper.vectors * self.round + place
            sent.append(self.compressor.pack(row - self.memory.sent[:, place], self.problem.rows, number))
        mixed = self.network.mix(round, *sent, beside=beside)
        known, differences = Memory(self.memory.sent.copy(), self.memory.mixed.copy()), []
        for message, place, theirs in zip(sent, places, mixed, strict=True):
            own = message.unpack() if hasattr(message, "unpack") else message
            if place is None:
                differences.append(theirs - own)
                continue
            known.sent[:, place] += b * own
            known.mixed[:, place] += b * theirs
            differences.append(known.mixed[:, place] - known.sent[:, place])
        self.memory = known
        return tuple([block + self.gamma * difference for block, difference in zip(arrays, differences, strict=True)])


@dataclass(frozen=True)
class _Slower:
    """A schedule of ``(1 - gamma) I + gamma W``: what is mixed where nothing is lost."""

    network: ScheduleLike
    gamma: float

    @property
    def agents(self) -> int:
        return self.network.agents

    @property
    def static(self) -> bool:
        return is_static(self.network)

    def key(self, round: int) -> Hashable:
        return self.network.key(round)

    def weights(self, key: Hashable) -> sp.csr_array:
        return (1 - self.gamma) * sp.eye_array(self.agents, format="csr") + self.gamma * self.network.weights(key)
