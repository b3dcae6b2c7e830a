"""Schedules whose matrices multiply to the exact average after a number of rounds, and the smallest of them."""

from collections.abc import Hashable, Iterable, Iterator
from functools import cache
from typing import TypeAlias

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.pattern import off_diagonal, union_pattern, with_edges
from topologies.schedules.base import Schedule
from topologies.weights.base import balanced

Edges: TypeAlias = tuple[np.ndarray, np.ndarray, float]
"""Agents at both ends of edges, and the weight of each edge."""


class FiniteTime(Schedule):
    """Base class of periodic schedules that reach the exact average at the end of each period.

    Subclasses define ``_rounds``, the edges of each round of a period.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.
    peers : int
        Most neighbours of an agent in a round, at least 1.

    Attributes
    ----------
    period : int
        Number of rounds after which agents that only mix hold the exact average.
    """

    def __init__(self, agents: int, peers: int = 1) -> None:
        self.agents, self.peers = integer("agents", agents, 1), integer("peers", peers, 1)
        _checks.memory(repr(self), self.agents, each=500)
        self._matrices = tuple(mixing_matrix(self.agents, edges) for edges in self._rounds()) or (
            mixing_matrix(self.agents, ()),
        )
        self.period = len(self._matrices)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(agents={self.agents}, peers={self.peers})"

    def _settings(self) -> Hashable:
        return self.agents, self.peers

    def _rounds(self) -> Iterable[list[Edges]]:
        raise NotImplementedError(f"{type(self).__name__} must define _rounds(), the edges of each round of a period")

    @property
    def static(self) -> bool:
        """True if the period is a single round."""
        return self.period == 1

    def key(self, round: int) -> int:
        return integer("round", round, 0) % self.period

    def weights(self, key: int) -> sparse.csr_array:
        return self._matrices[key]

    def graph(self, round: int) -> nx.Graph:
        return with_edges(nx.empty_graph(self.agents), *off_diagonal(self.weights(self.key(round))).nonzero())

    def union(self) -> sparse.csr_array:
        return union_pattern(off_diagonal(matrix) for matrix in self._matrices)


class HyperHypercube(FiniteTime):
    """A schedule of hyper-hypercubes: in turn, agents average over each digit of their numbers [1]_.

    With A = n_1 n_2 ... n_L, the shortest such product with all n_l <= k + 1, agents are numbered by L digits, the l-th below
    n_l. In round l mod L the n_l agents that differ in digit l alone average their values:

        c_ij = 1/n_l  for agents i, j that agree in all digits but the l-th,        c = 0 elsewhere.

    The product of L successive matrices is the average 1 1'/A. With k = 1 this is the one-peer hypercube.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1, without a prime factor above ``peers + 1``.
    peers : int
        Most neighbours of an agent in a round, k, at least 1.

    Raises
    ------
    ValueError
        If `agents` has a larger prime factor; `BaseGraph` takes any number.

    References
    ----------
    .. [1] Y. Takezawa, R. Sato, H. Bao, K. Niwa and M. Yamada, "Beyond exponential graph: communication-efficient topologies
       for decentralized learning via finite-time convergence", NeurIPS 2023, Algorithm 1.

    Examples
    --------
    >>> from topologies import HyperHypercube
    >>> network = HyperHypercube(6, peers=2)
    >>> network.period, sorted(network.graph(0).edges)
    (2, [(0, 1), (2, 3), (4, 5)])
    >>> (network.weights(0) @ network.weights(1)).toarray().round(3)[0]
    array([0.167, 0.167, 0.167, 0.167, 0.167, 0.167])
    """

    def _rounds(self) -> Iterable[list[Edges]]:
        if smooth_part(self.agents, self.peers + 1) < self.agents:
            raise ValueError(
                f"agents must have no prime factor above peers + 1 = {self.peers + 1}, got {self.agents}; "
                f"use BaseGraph({self.agents}, peers={self.peers}), which takes any number"
            )
        return ([edges] for edges in hypercube(np.arange(self.agents)[None], self.peers + 1))


def mixing_matrix(agents: int, edges: Iterable[Edges]) -> sparse.csr_array:
    """Return the symmetric matrix (A, A) with the weights of `edges`, whose diagonal completes its rows to one."""
    parts = [(first, second, np.full(len(first), weight)) for first, second, weight in edges]
    none = np.zeros(0, int)
    first, second, weights = map(np.concatenate, zip((none, none, none), *parts, strict=True))
    half = sparse.coo_array((weights, (first, second)), shape=(agents, agents)).tocsr()
    return balanced(half + half.T)


def cliques(groups: np.ndarray) -> Edges:
    """Return the edges by which the agents of each row of `groups`, (groups, size), average their values."""
    first, second = np.triu_indices(groups.shape[1], 1)
    return groups[:, first].ravel(), groups[:, second].ravel(), 1 / max(1, groups.shape[1])


def hypercube(groups: np.ndarray, base: int) -> Iterator[Edges]:
    """Yield the edges of each round in which each row of `groups` averages over its hyper-hypercube of `base` at most."""
    stride = 1
    for size in shortest_factors(groups.shape[-1], base):
        yield cliques(groups.reshape(-1, size, stride).swapaxes(1, 2).reshape(-1, size))
        stride *= size


@cache
def shortest_factors(number: int, most: int) -> tuple[int, ...]:
    """Return the fewest factors from 2 to `most`, in ascending order, whose product is `number`."""
    if number == 1:
        return ()
    sizes = [size for size in range(min(most, number), 1, -1) if divides(size, number)]
    return min(((*shortest_factors(number // size, size), size) for size in sizes), key=len)


def divides(size: int, number: int) -> bool:
    """Return whether `size` divides `number`, and leaves a product of factors up to `size`."""
    return number % size == 0 and smooth_part(number // size, size) == number // size


def smooth_part(number: int, most: int) -> int:
    """Return the largest divisor of `number` without a prime factor above `most`."""
    part = 1
    for factor in range(2, min(most, number) + 1):
        while number % factor == 0:
            number, part = number // factor, part * factor
    return part
