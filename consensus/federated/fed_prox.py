"""Federated averaging whose clients stay near the server's iterate."""

from dataclasses import dataclass

from consensus import _checks
from consensus.federated.base import Clients
from consensus.federated.fed_avg import FedAvg, FedAvgState, change
from consensus.servers.system import Traffic


@dataclass(frozen=True)
class FedProx(FedAvg):
    """:class:`FedAvg` whose clients minimise ``f_i(y) + coupling / 2 |y - w|^2`` by K steps of gradient descent.

        y_i <- y_i - a (grad f_i(y_i) + coupling (y_i - w)) ,     and then     w+ = sum_S n_i y_i / sum_S n_i .

    Clients that differ drift less far, the less the larger ``coupling``; the end is still none of U's stationary points.

    Parameters
    ----------
    learning_rate : float
        The clients' step a > 0.
    local_steps : int or sequence of int
        K, of each client in a round; a sequence has one K_i for each client.
    batch : int, optional
        Samples per local step; by default all.
    share : float
        In (0, 1]: the share of the clients that take part in a round.
    seed : int
        Seed of all draws.
    coupling : float
        The paper's mu > 0.
    secure : SecureSums, optional
        Secure aggregation, as for :class:`FedAvg`. It needs ``share=1.0``.

    References
    ----------
    Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated optimization in heterogeneous networks", MLSys 2020, Algorithm 2,
    with weights of FedAvg and local solves by gradient steps.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.centralized import FedAvg, FedProx, solve
    >>> curvatures, centres = np.array([[0.1], [0.4]]), np.array([[0.0], [5.0]])
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: (curvatures * (w - centres) ** 2 / 2).sum(axis=1), lambda w: curvatures * (w - centres), 2, 1)
    >>> [float(solve(problem, one, rounds=200).mean[0].round(2)) for one in (FedAvg(0.5, 8), FedProx(0.5, 8, coupling=1.0))]
    [3.17, 3.64]
    """

    coupling: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.number("coupling", self.coupling, above=0)

    def step(self, clients: Clients, traffic: Traffic, state: FedAvgState) -> FedAvgState:
        n, w = state
        return FedAvgState(n + 1, w + change(clients, traffic, n, w, self.coupling))
