"""Federated learning with dynamic regularization."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.federated.base import Clients, Federated
from consensus.problems import BaseProblem
from consensus.servers.system import Traffic


class FedDynState(NamedTuple):
    """The server's iterate w and mean h of the clients' gradients, (1, P), and these (1, A, P)."""

    round: int
    w: np.ndarray
    h: np.ndarray
    gradients: np.ndarray


@dataclass(frozen=True)
class FedDyn(Federated[FedDynState]):
    """Clients minimise their own cost less a linear term, which makes a common stationary point that of each.

    On the average form f_i = A g_i + r, with h_i = 0 at first, each of S goes from y_i = w K steps down the cost
    ``f_i(y) - h_i' y + coupling / 2 |y - w|^2``, and the server corrects their mean by the mean h of all h_i:

        y_i <- y_i - a (grad f_i(y_i) - h_i + coupling (y_i - w)) ,     and then     h_i+ = h_i - coupling (y_i - w) ;

        h+ = h - coupling / A sum_S (y_i - w),     w+ = mean_S y_i - h+ / coupling .

    Its fixed points are stationary points of U, however unlike the clients. In a round w goes to each of S, and y_i comes back:
    half of what :class:`SCAFFOLD` sends.

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
        The paper's alpha > 0. Where it is too small for the number of steps, rounds diverge.
    secure : SecureSums, optional
        Secure aggregation, as for :class:`FedAvg`. It needs ``share=1.0``.

    References
    ----------
    Acar, Zhao, Navarro, Mattina, Whatmough, Saligrama, "Federated learning based on dynamic regularization", ICLR 2021,
    Algorithm 1, with local solves by gradient steps.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.centralized import FedDyn, solve
    >>> curvatures, centres = np.array([[0.1], [0.4]]), np.array([[0.0], [5.0]])
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: (curvatures * (w - centres) ** 2 / 2).sum(axis=1), lambda w: curvatures * (w - centres), 2, 1)
    >>> solve(problem, FedDyn(learning_rate=0.5, local_steps=8, coupling=0.5), rounds=80).mean.round(6)
    array([4.])
    """

    coupling: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.number("coupling", self.coupling, above=0)

    def init(self, problem: BaseProblem, w: np.ndarray) -> FedDynState:
        return FedDynState(0, w, np.zeros_like(w), np.zeros((1, problem.agents, problem.parameters), w.dtype))

    def step(self, clients: Clients, traffic: Traffic, state: FedDynState) -> FedDynState:
        n, w, h, gradients = state
        agents, who = gradients.shape[1], clients.chosen(n)
        own = gradients[0, who]
        y = clients.local(w, who, n, np.full(len(who), float(agents)), traffic, -own, self.coupling)
        gradients = gradients.copy()
        gradients[0, who] = own - self.coupling * (y - w)
        traffic.send(len(who), w.shape[1], len(who))
        moved = clients.total(y - w, who, n, traffic)
        h = h - self.coupling / agents * moved
        return FedDynState(n + 1, w + moved / len(who) - h / self.coupling, h, gradients)
