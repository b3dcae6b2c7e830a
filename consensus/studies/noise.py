"""Noise on messages: what neighbours receive differs from what an agent sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, cast

import numpy as np

from consensus import _checks
from consensus.communication import Messages, Network
from consensus.robust.changed_network import Block, ChangedNetwork, MessageWrapper


def _sent(rows: np.ndarray, draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows, draws = _checks.floats("rows", rows), _checks.floats("draws", draws)
    if rows.shape != draws.shape:
        raise ValueError(f"draws must have the shape of rows, {rows.shape}; got {draws.shape}")
    return rows, draws


class Noise(Protocol):
    """Errors of the rows that are sent: a function of them and of a generator for each sender."""

    def received(self, rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Return what arrives of rows (rows, P), given standard normal ``draws`` of the same shape."""


@dataclass(frozen=True)
class Gaussian:
    """Independent normal noise on every number that is sent, the same for all receivers of a message.

    Parameters
    ----------
    deviation : float
        Standard deviation, >= 0.

    Examples
    --------
    >>> from consensus.studies import Gaussian
    >>> Gaussian(0.01)
    Gaussian(deviation=0.01)
    """

    deviation: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "deviation", _checks.number("deviation", self.deviation, least=0))

    def received(self, rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Return ``rows + deviation * draws``.

        Parameters
        ----------
        rows, draws : ndarray (rows, P)
            What is sent, and standard normal numbers.

        Returns
        -------
        ndarray (rows, P)
            What is received.
        """
        rows, draws = _sent(rows, draws)
        return np.asarray(rows + self.deviation * draws)


@dataclass(frozen=True)
class Rounding:
    """Every number that is sent is rounded to the nearest multiple of a step.

    Parameters
    ----------
    step : float
        The step, > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from consensus.studies import Rounding
    >>> Rounding(0.5).received(np.array([[0.2, 0.3, -1.9]]), np.zeros((1, 3))).tolist()
    [[0.0, 0.5, -2.0]]
    """

    step: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", _checks.number("step", self.step, above=0))

    def received(self, rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Return the nearest multiples.

        Parameters
        ----------
        rows, draws : ndarray (rows, P)
            What is sent; the second is not used.

        Returns
        -------
        ndarray (rows, P)
            What is received.
        """
        rows, _ = _sent(rows, draws)
        return np.asarray(np.round(rows / self.step) * self.step)


@dataclass(frozen=True)
class NoisyMessages(MessageWrapper):
    """Another solver on links with noise: an agent's own rows are exact, those of its neighbours are not.

    With the mixing matrix W and the error e_j of what agent j sent, an exchange returns

        W_ii x_i + sum_{j != i} W_ij (x_j + e_j),

    in which e_j is the same for all neighbours of j. With doubly stochastic W the sum over the agents moves by ``sum_j (1 -
    W_jj) e_j``: what tracking conserves is lost by that much in each exchange, and nothing brings it back.

    Parameters
    ----------
    solver : Solver
        A solver whose exchanges are ``network.mix`` with doubly stochastic matrices.
    noise : Gaussian or Rounding
        The noise.
    seed : int
        Seed of the noise, which depends on the round, the exchange in it and the sender alone.

    Raises
    ------
    TypeError
        If ``solver`` cannot be wrapped, or ``noise`` is none.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import GradientTracking
    >>> from consensus.studies import Gaussian, NoisyMessages
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1, lipschitz=2.0)
    >>> noisy = NoisyMessages(GradientTracking(), Gaussian(1e-3))
    >>> result = consensus.solve(problem, topologies.ring(5), noisy, rounds=200)
    >>> bool(1e-6 < result.history["stationarity"][-1] < 1.0)
    True
    """

    noise: Noise
    seed: int = field(default=0, metadata={"count": 0})

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.offers("noise", self.noise, ("received",), "Gaussian(deviation) or Rounding(step)")
        object.__setattr__(self, "seed", _checks.count("seed", self.seed, least=0))
        self._takes_mix()

    def around(self, network: Network) -> Network:
        return cast(Network, _NoisyNetwork(network, self.noise, self.seed, {}))


@dataclass(frozen=True)
class _NoisyNetwork(ChangedNetwork):
    noise: Noise
    seed: int
    count: dict[int, int]

    def mix(self, round: int, *blocks: Block, beside: int = 0) -> tuple[np.ndarray, ...]:
        exchange = self.count[round] = self.count.get(round, -1) + 1
        turn = iter(range(len(blocks)))

        def rule(messages: Messages) -> np.ndarray:
            return self._received(messages, (round, exchange, next(turn))).mixed()

        plain = [block if isinstance(block, np.ndarray) else block.unpack() for block in blocks]
        return self.network.aggregate(round, rule, *plain, beside=beside)

    def _received(self, messages: Messages, place: tuple[int, int, int]) -> Messages:
        """Return the messages as they arrive: one error for each sender, whoever receives it."""
        senders, first, back = np.unique(messages.senders, return_index=True, return_inverse=True)
        rows = messages.rows[messages.sources[first]]
        draws = np.empty_like(rows)
        for k, sender in enumerate(senders.tolist()):
            key = np.random.SeedSequence(self.seed, spawn_key=(int.from_bytes(b"sent", "big"), *place, sender))
            draws[k] = np.random.default_rng(key).standard_normal(rows.shape[1])
        arrived = self.noise.received(rows, draws).astype(rows.dtype, copy=False)
        return messages._replace(rows=arrived, sources=back)
