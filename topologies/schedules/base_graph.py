"""Base-(k+1) graphs: the exact average over any number of agents, with few neighbours a round."""

from collections.abc import Iterable

import numpy as np

from topologies.schedules.finite_time import Edges, FiniteTime, cliques, hypercube, smooth_part


class SimpleBaseGraph(FiniteTime):
    """A schedule of simple base-(k+1) graphs, which average exactly over any number of agents [1]_.

    The digits of A in base b = k + 1 split the agents into sets V_1, V_2, ..., V_L of sizes A_l = a_l b^(p_l), with p_1 > p_2
    > ... and 0 < a_l < b, and V_l into a_l parts of size b^(p_l).

    1. Each V_l averages over its hyper-hypercube.
    2. For l = 1, ..., L - 1: every agent i of V_(l+1), ..., V_L meets one agent j of each part of V_l, with weight
       c_ij = c_ji = A_l / (a_l (A_l + ... + A_L)). Then V_(l+1), ..., V_L hold the average over V_l as well, and all parts of
       V_l have the same sum. The agents of V_l that meet nobody average in groups of b.
    3. Each part averages over its hyper-hypercube, as soon as its set has been met.

    The product of the matrices of a period is the average 1 1'/A. A period takes at most 2 log_b(A) + 2 rounds; without a prime
    factor above b it is that of `HyperHypercube`.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.
    peers : int
        Most neighbours of an agent in a round, k, at least 1.

    References
    ----------
    .. [1] Y. Takezawa, R. Sato, H. Bao, K. Niwa and M. Yamada, "Beyond exponential graph: communication-efficient topologies
       for decentralized learning via finite-time convergence", NeurIPS 2023, Algorithm 2 and Theorem 1.

    Examples
    --------
    >>> from topologies import SimpleBaseGraph
    >>> network = SimpleBaseGraph(5)
    >>> network.period, [sorted(network.graph(round).edges) for round in range(3)]
    (5, [[(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 4), (1, 2)]])
    """

    def _rounds(self) -> Iterable[list[Edges]]:
        return simple_base(np.arange(self.agents)[None], self.peers + 1)


class BaseGraph(FiniteTime):
    """A schedule of base-(k+1) graphs, which average exactly over any number of agents in few rounds [1]_.

    A = p q, where q has all prime factors of A up to k + 1. Each of q groups of p agents averages over its `SimpleBaseGraph`;
    then the q agents with the same place in their groups average over their `HyperHypercube`. If the `SimpleBaseGraph` of all
    agents has a shorter period, it is taken. With one peer, the periods of 25, 50 and 100 agents are 9, 10 and 11 rounds.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.
    peers : int
        Most neighbours of an agent in a round, k, at least 1.

    References
    ----------
    .. [1] Y. Takezawa, R. Sato, H. Bao, K. Niwa and M. Yamada, "Beyond exponential graph: communication-efficient topologies
       for decentralized learning via finite-time convergence", NeurIPS 2023, Algorithm 3.

    Examples
    --------
    >>> from topologies import BaseGraph
    >>> network = BaseGraph(50)
    >>> network
    BaseGraph(agents=50, peers=1)
    >>> network.period, max(degree for _, degree in network.graph(3).degree)
    (10, 1)
    """

    def _rounds(self) -> Iterable[list[Edges]]:
        base, agents = self.peers + 1, np.arange(self.agents)
        groups = agents.reshape(smooth_part(self.agents, base), -1)
        rounds = simple_base(groups, base) + [[edges] for edges in hypercube(groups.T, base)]
        simple = simple_base(agents[None], base)
        return simple if len(simple) < len(rounds) else rounds


def simple_base(groups: np.ndarray, base: int) -> list[list[Edges]]:
    """Return the edges of each round in which each row of `groups`, (groups, size), averages over its simple base graph."""
    if smooth_part(groups.shape[1], base) == groups.shape[1]:
        return [[edges] for edges in hypercube(groups, base)]
    sets = digits(groups, base)
    first = [list(hypercube(parts.reshape(len(groups), -1), base)) for parts in sets]
    rounds = [[edges[step % len(edges)] for edges in first if edges] for step in range(len(first[0]))]
    last = [list(hypercube(parts if parts.shape[2] > 1 else parts.swapaxes(1, 2), base)) for parts in sets]
    starts = [min(place + 1, len(sets) - 1) for place in range(len(sets))]
    for step in range(len(last[0]) + 1):
        met = meeting(sets[step:], base) if step < len(sets) - 1 else []
        own = [edges[(step - start) % len(edges)] for edges, start in zip(last, starts, strict=True) if edges and step >= start]
        rounds.append(met + own)
    return rounds


def digits(groups: np.ndarray, base: int) -> list[np.ndarray]:
    """Return the sets of each group: digit a of its size, at place p, is a set of a parts, (groups, a, base^p)."""
    sets, left, size = [], groups, 1
    while size * base <= groups.shape[1]:
        size *= base
    while left.shape[1]:
        count = left.shape[1] // size
        if count:
            sets.append(left[:, : count * size].reshape(len(groups), count, size))
        left, size = left[:, count * size :], size // base
    return sets


def meeting(sets: list[np.ndarray], base: int) -> list[Edges]:
    """Return the edges by which agents of the later `sets` meet one agent of each part of the first, whose others average."""
    groups, parts, size = sets[0].shape
    others = np.concatenate([one.reshape(groups, -1) for one in sets[1:]], axis=1)
    count = others.shape[1]
    weight = size / (parts * size + count)
    idle = sets[0][:, :, count:].reshape(groups, -1)
    whole = idle.shape[1] // base * base
    averages = [cliques(idle[:, :whole].reshape(-1, base)), cliques(idle[:, whole:])]
    return [(np.repeat(others[:, None], parts, axis=1).ravel(), sets[0][:, :, :count].ravel(), weight), *averages]
