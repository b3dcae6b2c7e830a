"""Federated averaging."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus.federated.base import Clients, Federated
from consensus.problems import BaseProblem
from consensus.servers.system import Traffic


class FedAvgState(NamedTuple):
    """The server's iterate w (1, P)."""

    round: int
    w: np.ndarray


@dataclass(frozen=True)
class FedAvg(Federated[FedAvgState]):
    """Clients take local steps from the server's iterate, and the server averages their results.

    With f_i = (n / n_i) g_i + r the mean loss of client i's n_i samples and r, each client of S, the clients that take part in
    the round, does K times, from y_i = w,

        y_i <- y_i - learning_rate grad f_i(y_i) ,     and then     w+ = sum_S n_i y_i / sum_S n_i .

    With K = 1, all clients and all samples it is gradient descent. With more local steps and unlike clients it ends near a
    stationary point, not at one: see :class:`SCAFFOLD`. In a round w goes to each of S, and its y_i comes back.

    Parameters
    ----------
    learning_rate : float
        Step size of the clients, > 0.
    local_steps : int or sequence of int
        K, of each client in a round; a sequence has one K_i for each client.
    batch : int, optional
        Samples per local step, as :class:`consensus.Minibatches` draws them; by default all.
    share : float
        In (0, 1]: the share of the clients that take part in a round, drawn anew in each; at least one client.
    seed : int
        Seed of all draws.
    secure : SecureSums, optional
        Secure aggregation: the server learns the exact sums of the changes over all clients, and of a single client only what
        :class:`consensus.privacy.SecureSums` states. It needs ``share=1.0``: sums over different clients could be subtracted.

    References
    ----------
    McMahan, Moore, Ramage, Hampson, Aguera y Arcas, "Communication-efficient learning of deep networks from decentralized
    data", AISTATS 2017, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.centralized import FedAvg, solve
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1) / 10, lambda w: (w - centres) / 5, agents=5, parameters=1)
    >>> solve(problem, FedAvg(learning_rate=0.1, local_steps=4), rounds=40).mean.round(6)
    array([2.])
    """

    def init(self, problem: BaseProblem, w: np.ndarray) -> FedAvgState:
        return FedAvgState(0, w)

    def step(self, clients: Clients, traffic: Traffic, state: FedAvgState) -> FedAvgState:
        n, w = state
        return FedAvgState(n + 1, w + change(clients, traffic, n, w))


def change(clients: Clients, traffic: Traffic, round: int, w: np.ndarray, pull: float = 0.0) -> np.ndarray:
    """Return ``sum_S n_i (y_i - w) / sum_S n_i``, (1, P): what clients send to the server in a round of FedAvg."""
    who = clients.chosen(round)
    weights = clients.weights[who]
    y = clients.local(w, who, round, 1 / weights, traffic, pull=pull)
    traffic.send(len(who), w.shape[1], len(who))
    share = (weights / weights.sum()).astype(w.dtype)
    return clients.total(share[:, None] * (y - w), who, round, traffic)
