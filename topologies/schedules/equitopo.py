"""EquiTopo: mixing matrices of random shifts, whose consensus rate does not depend on the number of agents."""

from collections.abc import Hashable

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies._checks import flag, integer
from topologies.pattern import complete_pattern, off_diagonal, with_edges
from topologies.schedules.base import Schedule, stream
from topologies.schedules.static import Static
from topologies.weights.base import balanced
from topologies.weights.given import from_matrix

_SHIFTS, _PAIRS = b"equi", b"eqdy"  # tags of random streams


class EquiStatic(Static):
    """A static schedule that averages over M random shifts of the agents [1]_.

    With shifts u_1, ..., u_M drawn uniformly from 1, ..., A - 1, with replacement,

        C = 1/M sum_m S(u_m),    S(u)_ii = 1/A,    S(u)_ij = (A - 1)/A for j = (i + u) mod A,    S = 0 elsewhere,

    or the average of C and its transpose if `symmetric`. C is doubly stochastic. With M >= 8 log(2 A / p) / (3 e^2) its second
    largest singular value is below e with probability at least 1 - p: for the same rate, M grows like log(A).

    Parameters
    ----------
    agents : int
        Number of agents, at least 2.
    shifts : int
        Number of shifts M, at least 1: an agent hears from at most M others, from at most 2 M if `symmetric`.
    seed : int
        Seed, at least 0.
    symmetric : bool
        Whether the graph is undirected (U-EquiStatic) or directed (D-EquiStatic).

    References
    ----------
    .. [1] Z. Song, W. Li, K. Jin, L. Shi, M. Yan, W. Yin and K. Yuan, "Communication-efficient topologies for decentralized
       learning with O(1) consensus rate", NeurIPS 2022, on EquiStatic.

    Examples
    --------
    >>> from topologies import EquiStatic, spectral_gap
    >>> network = EquiStatic(300, shifts=20)
    >>> network
    EquiStatic(agents=300, shifts=20, seed=0, symmetric=True)
    >>> round(spectral_gap(network.weights(0)), 2)
    0.55
    """

    def __init__(self, agents: int, shifts: int, seed: int = 0, symmetric: bool = True) -> None:
        self.agents, self.shifts, self.seed = (
            integer("agents", agents, 2),
            integer("shifts", shifts, 1),
            integer("seed", seed, 0),
        )
        self.symmetric = flag("symmetric", symmetric)
        _checks.memory(repr(self), self.agents, each=100 * self.shifts)
        drawn = stream(_SHIFTS, self.seed, 0).integers(1, self.agents, size=self.shifts)
        own = np.arange(self.agents)
        rows = np.tile(own, self.shifts)
        columns = (rows + np.repeat(drawn, self.agents)) % self.agents
        share = (1 - 1 / self.agents) / self.shifts
        shifted = sparse.csr_array((np.full(len(rows), share), (rows, columns)), shape=(self.agents, self.agents))
        matrix = balanced(sparse.csr_array(shifted + shifted.T) / 2 if self.symmetric else shifted)
        super().__init__(off_diagonal(matrix).T.tocsr(), from_matrix(matrix))

    def __repr__(self) -> str:
        return f"EquiStatic(agents={self.agents}, shifts={self.shifts}, seed={self.seed}, symmetric={self.symmetric})"


class EquiDyn(Schedule):
    """A schedule in which every agent averages with one other, at a random distance that is new in each round [1]_.

    A round has a shift u, uniform in 1, ..., A - 1. Directed (OD-EquiDyn), with S(u) as in `EquiStatic`,

        C = (I + S(u)) / 2.

    If `symmetric` (OU-EquiDyn), agents are visited in the order s, s + 1, ..., for a uniform s, and agent i is paired with
    agent j = (i + u) mod A if neither has a partner yet; of u and A - u, which have the same pairs, the smaller is taken. Pairs
    have c_ij = c_ji = (A - 1) / (2 A), and the diagonal completes rows to one. The shift and s depend on `seed` and the round.

    In expectation a round divides the squared disagreement by a factor that hardly depends on A.

    Parameters
    ----------
    agents : int
        Number of agents, at least 2.
    seed : int
        Seed, at least 0.
    symmetric : bool
        Whether agents exchange values in pairs, or each sends to one agent and receives from another.

    References
    ----------
    .. [1] Z. Song, W. Li, K. Jin, L. Shi, M. Yan, W. Yin and K. Yuan, "Communication-efficient topologies for decentralized
       learning with O(1) consensus rate", NeurIPS 2022, on EquiDyn, with eta = 1/2.

    Examples
    --------
    >>> from topologies import EquiDyn
    >>> network = EquiDyn(6, seed=1)
    >>> sorted(network.graph(0).edges)
    [(0, 5), (1, 2), (3, 4)]
    """

    def __init__(self, agents: int, seed: int = 0, symmetric: bool = True) -> None:
        self.agents, self.seed, self.symmetric = (
            integer("agents", agents, 2),
            integer("seed", seed, 0),
            flag("symmetric", symmetric),
        )
        _checks.memory(repr(self), self.agents, each=100)

    def __repr__(self) -> str:
        return f"EquiDyn(agents={self.agents}, seed={self.seed}, symmetric={self.symmetric})"

    def _settings(self) -> Hashable:
        return self.agents, self.seed, self.symmetric

    @property
    def meets_all(self) -> bool:
        """True if every two agents meet again and again."""
        return True

    @property
    def static(self) -> bool:
        """True if there are only two agents, which meet in every round."""
        return self.agents == 2

    def key(self, round: int) -> tuple[int, int]:
        round = integer("round", round, 0)
        if self.static:
            return 1, 0
        rng = stream(_PAIRS, self.seed, round)
        shift, first = int(rng.integers(1, self.agents)), int(rng.integers(self.agents))
        return (min(shift, self.agents - shift), first) if self.symmetric else (shift, 0)

    def _edges(self, key: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Return who sends, and to whom."""
        shift, first = key
        place = np.arange(self.agents)
        if not self.symmetric:
            return (place + shift) % self.agents, place
        early = place[(place // shift % 2 == 0) & (place + shift < self.agents)]
        one, other = (early + first) % self.agents, (early + first + shift) % self.agents
        return np.concatenate([one, other]), np.concatenate([other, one])

    def weights(self, key: tuple[int, int]) -> sparse.csr_array:
        senders, receivers = self._edges(key)
        weights = np.full(len(senders), (1 - 1 / self.agents) / 2)
        return balanced(sparse.coo_array((weights, (receivers, senders)), shape=(self.agents, self.agents)).tocsr())

    def graph(self, round: int) -> nx.Graph:
        nodes = nx.empty_graph(self.agents, create_using=nx.Graph if self.symmetric else nx.DiGraph)
        return with_edges(nodes, *self._edges(self.key(round)))

    def union(self) -> sparse.csr_array:
        return complete_pattern(self.agents)
