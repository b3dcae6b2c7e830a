"""Another solver whose messages are compressed, with error feedback."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.sparse as sp

from consensus import _checks
from consensus.communication.network import Network
from consensus.compression.base import Compressor, compressor_of
from consensus.problems import BaseProblem
from consensus.solvers.compressed.method import Memory, gamma_for, omega, share
from consensus.solvers.compressed.remembering import Exchange, RememberingState, RememberingWrapper
from topologies.schedules import ScheduleLike, is_static


@dataclass(frozen=True)
class Compressed(RememberingWrapper):
    """Another solver with compressed messages, and error feedback, wherever it mixes.

    Every vector x that it mixes has a memory H of what was sent of it, zero at first. In place of W x it gets

        H+ = H + b Q(x - H)          x + gamma (W - I) H+

    so that what Q loses of one message is in the next. With Q(x) = x that is ``(1 - gamma) x + gamma W x``: a slower network.
    The sum over agents stays as W leaves it, whatever Q loses: trackers keep their mean, and methods their limits.
    Masses, as of :class:`SONATA`, are sent as they are. It needs a static W; on a graph that changes H is not what neighbours
    know, and they never agree.

    Parameters
    ----------
    solver : Solver
        Such as :class:`NEXT`, :class:`SONATA` or :class:`GradientTracking`, with its step given, smaller than without: one
        times gamma is a beginning. Its exchanges must be ``network.mix``.
    compressor : Compressor
        Q, and with it b, as of :class:`ChocoSGD`.
    gamma : float, optional
        In (0, 1]; ``min(1, omega / (1 - lmin(W)))`` by default.

    Raises
    ------
    TypeError
        If ``solver`` is none that can be wrapped, or ``compressor`` no compressor.
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
    >>> result = consensus.solve(problem, topologies.ring(5), solver, rounds=1000, record_every=100)
    >>> bool(abs(result.w - 1.5).max() < 1e-10)
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
            gamma = float(f"{gamma_for(omega(compressor, problem.parameters), network):.6g}")
        return super(Compressed, replace(self, compressor=compressor, gamma=gamma)).prepared(problem, network)

    def matrices(self, network: ScheduleLike) -> ScheduleLike:
        return _Slower(network, 1.0 if self.gamma is None else self.gamma)

    def memory(self, problem: BaseProblem, w: np.ndarray) -> Memory:
        return Memory.empty(np.zeros((len(w), self.vectors, problem.parameters), w.dtype))

    def exchange(self, problem: BaseProblem, network: Network, state: RememberingState) -> Exchange:
        return _ErrorFeedback(self, problem, network, state)


class _ErrorFeedback(Exchange):
    """A network that mixes what neighbours know."""

    def mix(self, round, *blocks, beside=0):
        wrapper, parameters = self.wrapper, self.problem.parameters
        part, sent, places = share(wrapper.compressor, parameters), [], []
        for block in blocks:
            places.append(self.place() if self.whole(block) else None)
            block = block.astype(self.network.dtype, copy=False)
            if places[-1] is not None:
                number = wrapper.vectors * self.round + places[-1]
                rows = block - self.memory.sent[:, places[-1]]
                block = wrapper.compressor.pack(rows, self.problem.rows, number)
            sent.append(block)
        mixed = self.network.mix(round, *sent, beside=beside)
        known, pulls = Memory(self.memory.sent.copy(), self.memory.mixed.copy()), []
        for packed, place, theirs in zip(sent, places, mixed, strict=True):
            if place is None:
                pulls.append(theirs - packed)
                continue
            known.sent[:, place] += part * packed.unpack()
            known.mixed[:, place] += part * theirs
            pulls.append(known.mixed[:, place] - known.sent[:, place])
        self.memory = known
        return tuple([block + wrapper.gamma * pull for block, pull in zip(blocks, pulls, strict=True)])


@dataclass(frozen=True)
class _Slower:
    """A schedule of ``(1 - gamma) I + gamma W``: what is mixed where nothing is lost."""

    network: ScheduleLike
    gamma: float

    @property
    def agents(self):
        return self.network.agents

    @property
    def static(self):
        return is_static(self.network)

    def key(self, round):
        return self.network.key(round)

    def weights(self, key):
        return (1 - self.gamma) * sp.eye_array(self.agents, format="csr") + self.gamma * self.network.weights(key)
