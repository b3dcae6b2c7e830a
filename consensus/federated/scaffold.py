"""Federated averaging with control variates."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consensus import _checks
from consensus.federated.base import Clients, Federated
from consensus.problems import BaseProblem
from consensus.servers.system import Traffic


class ScaffoldState(NamedTuple):
    """The server's iterate w and control c, (1, P), and the clients' controls (1, A, P)."""

    round: int
    w: np.ndarray
    c: np.ndarray
    controls: np.ndarray


@dataclass(frozen=True)
class SCAFFOLD(Federated[ScaffoldState]):
    """:class:`FedAvg` whose clients correct their gradients by their difference to the mean gradient.

    On the average form f_i = A g_i + r, with controls c_i = 0 at first, whose mean is c, those of S do K times, from y_i = w,

        y_i <- y_i - a (grad f_i(y_i) - c_i + c) ,     and then     c_i+ = c_i - c + (w - y_i) / (K_i a) ;

        w+ = w + server_rate mean_S (y_i - w),     c+ = c + (1 / A) sum_S (c_i+ - c_i) .

    Its fixed points are stationary points of U, however unlike the clients. In a round w and c go to each of S, and the changes
    of both come back.

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
    server_rate : float
        Step size of the server, > 0.
    secure : SecureSums, optional
        Secure aggregation: the server learns the exact sums of both changes over all clients, and of a single client only what
        :class:`consensus.privacy.SecureSums` states. It needs ``share=1.0``: sums over different clients could be subtracted.

    References
    ----------
    Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, "SCAFFOLD: stochastic controlled averaging for federated learning", ICML
    2020, Algorithm 1 (option II for the controls).

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.centralized import SCAFFOLD, solve
    >>> curvatures, centres = np.array([[0.1], [0.4]]), np.array([[0.0], [5.0]])
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: (curvatures * (w - centres) ** 2 / 2).sum(axis=1), lambda w: curvatures * (w - centres), 2, 1)
    >>> solve(problem, SCAFFOLD(learning_rate=0.5, local_steps=4), rounds=80).mean.round(6)
    array([4.])
    """

    server_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.number("server_rate", self.server_rate, above=0)

    def init(self, problem: BaseProblem, w: np.ndarray) -> ScaffoldState:
        return ScaffoldState(0, w, np.zeros_like(w), np.zeros((1, problem.agents, problem.parameters), w.dtype))

    def step(self, clients: Clients, traffic: Traffic, state: ScaffoldState) -> ScaffoldState:
        n, w, c, controls = state
        agents, who = controls.shape[1], clients.chosen(n)
        own = controls[0, who]
        y = clients.local(w, who, n, np.full(len(who), float(agents)), traffic, c - own)
        new = own - c + (w - y) / (clients.steps[who, None].astype(w.dtype) * self.learning_rate)
        controls = controls.copy()
        controls[0, who] = new
        traffic.send(2 * len(who), w.shape[1], 2 * len(who))  # w and c; the changes of both come back
        moved = clients.total((y - w) / len(who), who, n, traffic)
        c = c + clients.total(new - own, who, n, traffic) / agents
        return ScaffoldState(n + 1, w + self.server_rate * moved, c, controls)
