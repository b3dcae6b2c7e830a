"""Adaptive steps of the server along the clients' changes: Adam, Yogi, Adagrad."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.federated.base import Clients, Federated
from consensus.federated.fed_avg import change
from consensus.problems import BaseProblem
from consensus.servers.system import Traffic


class FedAdamState(NamedTuple):
    """The server's iterate w, and the means m of the changes and v of their squares, (1, P) each."""

    round: int
    w: np.ndarray
    m: np.ndarray
    v: np.ndarray


class AdaptiveServer(Federated[FedAdamState]):
    """A server whose steps along the clients' mean change are adaptive: subclasses say how much of the past they keep."""

    server_rate: float
    tau: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.number("server_rate", self.server_rate, above=0)
        _checks.number("tau", self.tau, above=0)

    @property
    @abstractmethod
    def _first(self) -> float:
        """The factor b1 of the past changes."""

    @abstractmethod
    def _squares(self, v: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Return the next v, from squared changes (1, P)."""

    def init(self, problem: BaseProblem, w: np.ndarray) -> FedAdamState:
        return FedAdamState(0, w, np.zeros_like(w), np.full_like(w, self.tau**2))

    def step(self, clients: Clients, traffic: Traffic, state: FedAdamState) -> FedAdamState:
        n, w, m, v = state
        d = change(clients, traffic, n, w)
        m = self._first * m + (1 - self._first) * d
        v = self._squares(v, d**2)
        return FedAdamState(n + 1, w + self.server_rate * m / (np.sqrt(v) + self.tau), m, v)


@dataclass(frozen=True)
class FedAdam(AdaptiveServer):
    """:class:`FedAvg` whose server makes a step of Adam along the clients' mean change D.

        m+ = b1 m + (1 - b1) D,     v+ = b2 v + (1 - b2) D^2,     w+ = w + server_rate m+ / (sqrt(v+) + tau)

    elementwise, with m = 0 and v = tau^2 at first and D = sum_S n_i (y_i - w) / sum_S n_i.

    Parameters
    ----------
    learning_rate : float
        Step size of the clients, > 0.
    local_steps : int or sequence of int
        K, of each client in a round; a sequence has one K_i for each client.
    batch : int, optional
        Samples per local step; by default all.
    share : float
        In (0, 1]: the share of the clients that take part in a round.
    seed : int
        Seed of all draws.
    server_rate : float
        Step size of the server, > 0.
    betas : (float, float)
        The factors b1 and b2, in [0, 1).
    tau : float
        > 0: the server adapts no further to changes that are smaller.
    secure : SecureSums, optional
        Secure aggregation: the server learns the exact sums of the changes over all clients, and of a single client only what
        :class:`consensus.privacy.SecureSums` states. It needs ``share=1.0``: sums over different clients could be subtracted.

    References
    ----------
    Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive federated optimization", ICLR 2021, Algorithm 2
    (weighted by samples, as its experiments are).

    Examples
    --------
    >>> from consensus.centralized import FedAdam
    >>> FedAdam(learning_rate=0.1, server_rate=0.01).betas
    (0.9, 0.99)
    """

    server_rate: float = 0.01
    betas: tuple[float, float] = (0.9, 0.99)
    tau: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.betas, tuple | list) or len(self.betas) != 2:
            raise ValueError(f"betas must be two numbers, such as (0.9, 0.99); got {_checks.shown(self.betas)}")
        for k, beta in enumerate(self.betas):
            _checks.number(f"betas[{k}]", beta, least=0, below=1)

    @property
    def _first(self) -> float:
        return self.betas[0]

    def _squares(self, v: np.ndarray, new: np.ndarray) -> np.ndarray:
        b2 = self.betas[1]
        found: np.ndarray = b2 * v + (1 - b2) * new
        return found


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """:class:`FedAdam` whose squares fall no faster than they rise.

        v+ = v - (1 - b2) D^2 sign(v - D^2)

    Settings are those of :class:`FedAdam`.

    References
    ----------
    Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive federated optimization", ICLR 2021, Algorithm 2.

    Examples
    --------
    >>> from consensus.centralized import FedYogi
    >>> FedYogi(learning_rate=0.1, server_rate=0.01).betas
    (0.9, 0.99)
    """

    def _squares(self, v: np.ndarray, new: np.ndarray) -> np.ndarray:
        found: np.ndarray = v - (1 - self.betas[1]) * new * np.sign(v - new)
        return found


@dataclass(frozen=True)
class FedAdagrad(AdaptiveServer):
    """:class:`FedAdam` whose squares are sums over all rounds.

        m+ = b1 m + (1 - b1) D,     v+ = v + D^2,     w+ = w + server_rate m+ / (sqrt(v+) + tau)

    Parameters
    ----------
    learning_rate : float
        Step size of the clients, > 0.
    local_steps : int or sequence of int
        K, of each client in a round; a sequence has one K_i for each client.
    batch : int, optional
        Samples per local step; by default all.
    share : float
        In (0, 1]: the share of the clients that take part in a round.
    seed : int
        Seed of all draws.
    server_rate : float
        Step size of the server, > 0.
    momentum : float
        The factor b1, in [0, 1).
    tau : float
        > 0: the server adapts no further to changes that are smaller.
    secure : SecureSums, optional
        As in :class:`FedAdam`.

    References
    ----------
    Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive federated optimization", ICLR 2021, Algorithm 2.

    Examples
    --------
    >>> from consensus.centralized import FedAdagrad
    >>> FedAdagrad(learning_rate=0.1, server_rate=0.1).momentum
    0.0
    """

    server_rate: float = 0.1
    momentum: float = 0.0
    tau: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.number("momentum", self.momentum, least=0, below=1)

    @property
    def _first(self) -> float:
        return self.momentum

    def _squares(self, v: np.ndarray, new: np.ndarray) -> np.ndarray:
        found: np.ndarray = v + new
        return found
