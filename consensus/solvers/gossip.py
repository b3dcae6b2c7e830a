"""Several exchanges a round."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
from scipy.sparse import csr_array

from consensus import _checks
from consensus.communication import Network, Packed
from consensus.solvers.needs import Needs
from consensus.solvers.wrapper import Wrapper
from topologies.schedules import ScheduleLike, is_static

_MOST = 100_000  # exchanges: as many take seconds a round
Blocks: TypeAlias = tuple[np.ndarray, ...]
Sent: TypeAlias = tuple[np.ndarray | Packed, ...]


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
        The one whose exchanges are repeated.
    exchanges : int
        Number k of exchanges.
    gap : float, optional
        The spectral gap of the static W, in (0, 1), from :func:`topologies.spectral_gap` or the agents' own
        :func:`topologies.estimate_gap`; makes exchanges accelerated.

    References
    ----------
    Scaman, Bach, Bubeck, Lee, Massoulie, "Optimal algorithms for smooth and strongly convex distributed optimization in
    networks", ICML 2017, section 4.2 (accelerated gossip).

    Examples
    --------
    >>> from consensus.solvers import GradientTracking, Gossip
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
        """``exchanges`` times those of the solver inside."""
        inner = super().exchanges_a_round
        return None if inner is None else self.exchanges * inner

    def matrices(self, network: ScheduleLike) -> ScheduleLike:
        return _Products(network, self.exchanges, self.gap)

    def around(self, network: Network) -> Network:
        # The rest of the protocol is in __getattr__, which type checkers do not see.
        return cast(Network, _Repeated(network, self.exchanges, self.gap))


def _plain(exchange: Callable[..., Blocks], round: int, exchanges: int, blocks: Sent) -> Blocks:
    first, *others = range(round * exchanges, (round + 1) * exchanges)
    new = exchange(first, *blocks)
    for n in others:
        new = exchange(n, *new)
    return new


def _accelerated(mix: Callable[..., Blocks], exchanges: int, gap: float, blocks: Sent) -> Blocks:
    old = tuple(block.unpack() if hasattr(block, "unpack") else block for block in blocks)
    new = mix(*blocks)
    inverse = 1 / (1 - gap)
    before, now = 1.0, inverse  # T_{j-1}, T_j at 1/rho
    for _ in range(exchanges - 1):
        after = 2 * inverse * now - before
        forward, back = 2 * inverse * now / after, before / after
        old, new = new, tuple(forward * m - back * o for m, o in zip(mix(*new), old, strict=True))
        before, now = now, after
    return new


@dataclass(frozen=True)
class _Products:
    """A schedule of the products of matrices that the exchanges of a round amount to."""

    network: ScheduleLike
    exchanges: int
    gap: float | None

    @property
    def agents(self) -> int:
        return self.network.agents

    @property
    def static(self) -> bool:
        return is_static(self.network)

    def key(self, round: int) -> tuple[Any, ...]:
        first = round * self.exchanges
        return tuple(self.network.key(n) for n in range(first, first + self.exchanges))

    def weights(self, key: tuple[Any, ...]) -> csr_array:
        one, each = (np.eye(self.agents),), iter(key)
        if self.gap is None:
            (product,) = _plain(lambda n, block: (self.network.weights(key[n]) @ block,), 0, self.exchanges, one)
        else:
            (product,) = _accelerated(lambda block: (self.network.weights(next(each)) @ block,), self.exchanges, self.gap, one)
        return csr_array(product)


@dataclass(frozen=True)
class _Repeated:
    """A network whose every exchange is several of ``network``."""

    network: Network
    exchanges: int
    gap: float | None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever else the network offers is not repeated
        return getattr(self.network, name)

    def mix(self, round: int, *blocks: np.ndarray | Packed, beside: int = 0) -> Blocks:
        mix = functools.partial(self.network.mix, beside=beside)
        if self.gap is None:
            return _plain(mix, round, self.exchanges, blocks)
        return _accelerated(functools.partial(mix, round), self.exchanges, self.gap, blocks)

    def average(self, round: int, *blocks: np.ndarray | Packed) -> Blocks:
        return _plain(self.network.average, round, self.exchanges, blocks)

    def mix_and_average(self, round: int, mixed: np.ndarray | Packed, averaged: np.ndarray | Packed) -> Blocks:
        return _plain(self.network.mix_and_average, round, self.exchanges, (mixed, averaged))
