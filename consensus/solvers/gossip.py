"""Several exchanges a round."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy.sparse import csr_array

from consensus import _checks
from consensus.communication.network import Network
from consensus.solvers.needs import Needs
from consensus.solvers.wrapper import Wrapper
from topologies.schedules import ScheduleLike, is_static

_MOST = 100_000  # exchanges: as many take seconds a round


@dataclass(frozen=True)
class Gossip(Wrapper):
    """Another solver with several exchanges wherever it has one, plain or Chebyshev-accelerated.

    Plain, the k exchanges of round n meet the matrices of the schedule's rounds n k, ..., n k + k - 1. Accelerated, on a
    static symmetric W with spectral gap 1 - rho, they apply the polynomial with the smallest modulus on [-rho, rho],

        x_1 = W x_0,   x_{j+1} = (2 T_j(1/rho) / (rho T_{j+1}(1/rho))) W x_j - (T_{j-1}(1/rho) / T_{j+1}(1/rho)) x_{j-1}

    with T_j the Chebyshev polynomials: the disagreement shrinks by 1 / T_k(1/rho) where plain exchanges give rho^k. Every
    exchange is one of neighbours, and is counted.

    Parameters
    ----------
    solver : Solver
    exchanges : int
        k.
    gap : float, optional
        The spectral gap of the static W, from :func:`topologies.spectral_gap` or the agents' own
        :func:`topologies.estimate_gap`: accelerates. In (0, 1).

    References
    ----------
    Scaman, Bach, Bubeck, Lee, Massoulie, "Optimal algorithms for smooth and strongly convex distributed optimization in
    networks", ICML 2017, section 4.2 (accelerated gossip).

    Examples
    --------
    >>> from consensus.solvers import GradientTracking
    >>> from consensus.solvers import Gossip
    >>> Gossip(GradientTracking(0.1), exchanges=3).exchanges
    3
    """

    exchanges: int
    gap: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._takes_mix()
        object.__setattr__(self, "exchanges", _checks.count("exchanges", self.exchanges, most=_MOST))
        object.__setattr__(self, "gap", _checks.optional_number("gap", self.gap, above=0, below=1))

    @property
    def needs(self) -> Needs:
        return super().needs if self.gap is None else replace(super().needs, mixing="symmetric", static=True)

    @property
    def exchanges_a_round(self) -> float | None:
        inner = super().exchanges_a_round
        return None if inner is None else self.exchanges * inner

    def matrices(self, network: ScheduleLike) -> ScheduleLike:
        return _Products(network, self.exchanges, self.gap)

    def around(self, network: Network) -> Network:
        # Whatever it does not repeat it has by __getattr__, which type checkers do not see.
        return cast(Network, _Repeated(network, self.exchanges, self.gap))


@dataclass(frozen=True)
class _Products:
    """A schedule with the matrices that the exchanges of a round make together: bounds on steps are taken from it."""

    network: ScheduleLike
    exchanges: int
    gap: float | None

    @property
    def agents(self):
        return self.network.agents

    @property
    def static(self):
        return is_static(self.network)

    def key(self, round):
        first = round * self.exchanges
        return tuple(self.network.key(n) for n in range(first, first + self.exchanges))

    def weights(self, key):
        each = iter(key)
        network = cast(Network, _Matrices(lambda block: self.network.weights(next(each)) @ block))
        (product,) = _Repeated(network, self.exchanges, self.gap).mix(0, np.eye(self.agents))
        return csr_array(product)


@dataclass(frozen=True)
class _Matrices:
    """As a network, for one exchange after another."""

    times: Callable[[np.ndarray], np.ndarray]

    def mix(self, round, block, beside=0):
        return (self.times(block),)


@dataclass(frozen=True)
class _Repeated:
    """A network whose every exchange is several of ``network``."""

    network: Network
    exchanges: int
    gap: float | None

    def __getattr__(self, name):  # whatever else the network offers is not repeated
        return getattr(self.network, name)

    def mix(self, round, *blocks, beside=0):
        if self.gap is None:
            return self._plain(functools.partial(self.network.mix, beside=beside), round, blocks)
        old = tuple(block if isinstance(block, np.ndarray) else block.unpack() for block in blocks)
        new = self.network.mix(round, *blocks, beside=beside)
        inverse = 1 / (1 - self.gap)
        before, now = 1.0, inverse  # T_{j-1}, T_j at 1/rho
        for _ in range(self.exchanges - 1):
            after = 2 * inverse * now - before
            mixed = self.network.mix(round, *new, beside=beside)
            forward, back = 2 * inverse * now / after, before / after
            old, new = new, tuple(forward * m - back * o for m, o in zip(mixed, old, strict=True))
            before, now = now, after
        return new

    def average(self, round, *blocks):
        return self._plain(self.network.average, round, blocks)

    def mix_and_average(self, round, mixed, averaged):
        return self._plain(self.network.mix_and_average, round, (mixed, averaged))

    def _plain(self, exchange, round, blocks):
        for index in range(self.exchanges):
            blocks = exchange(round * self.exchanges + index, *blocks)
        return blocks
