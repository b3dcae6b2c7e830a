"""Federated averaging of clients that take unlike numbers of steps."""

from dataclasses import dataclass

from consensus.federated.base import Clients
from consensus.federated.fed_avg import FedAvg, FedAvgState
from consensus.servers.system import Traffic


@dataclass(frozen=True)
class FedNova(FedAvg):
    """:class:`FedAvg` whose server averages the clients' mean steps instead of their sums.

    Client i takes K_i steps. With p_i = n_i / sum_S n_j,

        w+ = w + (sum_S p_i K_i) sum_S p_i (y_i - w) / K_i .

    Where all K_i are equal it is FedAvg. Where they are not, FedAvg minimises another objective, in which clients with more
    steps count more.

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
    secure : SecureSums, optional
        Secure aggregation, as for :class:`FedAvg`. It needs ``share=1.0``.

    References
    ----------
    Wang, Liu, Liang, Joshi, Poor, "Tackling the objective inconsistency problem in heterogeneous federated optimization",
    NeurIPS 2020, equation 10 for local steps without momentum.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.centralized import FedAvg, FedNova, solve
    >>> centres = np.array([[0.0], [4.0]])  # the mean is the minimiser
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1) / 4, lambda w: (w - centres) / 2, 2, 1)
    >>> [float(solve(problem, kind(0.05, [1, 4]), rounds=100).mean[0].round(1)) for kind in (FedAvg, FedNova)]
    [3.2, 1.9]
    """

    def step(self, clients: Clients, traffic: Traffic, state: FedAvgState) -> FedAvgState:
        n, w = state
        who = clients.chosen(n)
        y = clients.local(w, who, n, 1 / clients.weights[who], traffic)
        traffic.send(len(who), w.shape[1], len(who))
        share, steps = clients.weights[who] / clients.weights[who].sum(), clients.steps[who]
        factor = (share * (share @ steps) / steps).astype(w.dtype)
        return FedAvgState(n + 1, w + clients.total(factor[:, None] * (y - w), who, n, traffic))
