"""Schedules in which every agent receives from at most one other in a round, and averages the two values."""

from collections.abc import Hashable

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies._checks import integer
from topologies.pattern import (
    GraphLike,
    adjacency,
    bare_nodes,
    complete_pattern,
    content,
    count_edges,
    named,
    off_diagonal,
    say_order,
    union_pattern,
    with_edges,
)
from topologies.schedules.base import Schedule, stream


class Matchings(Schedule):
    """A schedule of random matchings, in which matched agents average their values [1]_.

    With a matched pair {i, j} of a round and an unmatched agent k, the mixing matrix is the symmetric projection

        c_ii = c_ij = c_ji = c_jj = 1/2,        c_kk = 1,        c = 0 elsewhere.

    Without `graph`, the matching is uniform among those that leave at most one agent unmatched. With `graph` it is maximal:
    edges are visited in random order, and taken if both agents are still unmatched [2]_. Every edge is matched again and again.
    The matching depends on `seed` and the round alone.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.
    seed : int
        Seed, at least 0.
    graph : networkx.Graph, symmetric scipy sparse matrix or symmetric numpy array of shape (A, A), optional
        Undirected graph of possible pairs, read as by `topologies.adjacency`; by default the complete graph.

    References
    ----------
    .. [1] S. Boyd, A. Ghosh, B. Prabhakar and D. Shah, "Randomized gossip algorithms" (2006), on synchronous gossip.
    .. [2] G. Blelloch, J. Fineman and J. Shun, "Greedy sequential maximal independent set and matching are parallel on
       average" (2012).

    Examples
    --------
    >>> from topologies import Matchings
    >>> network = Matchings(4, seed=1)
    >>> network
    Matchings(agents=4, seed=1)
    >>> sorted(network.graph(0).edges)
    [(0, 2), (1, 3)]
    """

    def __init__(self, agents: int, seed: int = 0, graph: GraphLike | None = None) -> None:
        self.agents, self.seed = integer("agents", agents, 1), integer("seed", seed, 0)
        _checks.memory(f"Matchings(agents={self.agents})", self.agents)
        self._pattern, self._nodes = None, nx.empty_graph(self.agents)
        if graph is not None:
            graph = named(graph)
            self._pattern = adjacency(graph)
            if self._pattern.shape[0] != self.agents:
                raise ValueError(f"graph has {self._pattern.shape[0]} agents, but agents={self.agents}")
            self._nodes = bare_nodes(graph, self._pattern)
            self._name_agents(graph)
            say_order(graph)
            if self._nodes.is_directed():
                raise ValueError("graph must be undirected, because matched agents send to each other")
            first, second = self._pattern.nonzero()
            self._edges = np.stack([first, second], axis=1)[first < second]

    def __repr__(self) -> str:
        edges = "" if self._pattern is None else f", edges={count_edges(self._pattern)}"
        return f"Matchings(agents={self.agents}{edges}, seed={self.seed})"

    def _settings(self) -> Hashable:
        return self.agents, self.seed, None if self._pattern is None else content(self._pattern)

    def _partners(self, round: int) -> np.ndarray:
        """Return the partner of each agent: the agent itself if it is unmatched."""
        partner, random = np.arange(self.agents), stream(b"pair", self.seed, round)
        if self._pattern is None:
            order = random.permutation(self.agents)
            first, second = order[0 : self.agents - 1 : 2], order[1::2]
            partner[first], partner[second] = second, first
            return partner
        edges = self._edges[random.permutation(len(self._edges))]
        earliest = np.empty(self.agents, dtype=int)
        while len(edges):
            # An edge that precedes all other edges of both its agents is taken in any case. Edges are assigned in reversed
            # order, because numpy keeps the last of several values assigned to one place.
            place = np.arange(len(edges))
            earliest[edges[::-1].ravel()] = np.repeat(place[::-1], 2)
            taken = (earliest[edges[:, 0]] == place) & (earliest[edges[:, 1]] == place)
            first, second = edges[taken].T
            partner[first], partner[second] = second, first
            edges = edges[(partner[edges[:, 0]] == edges[:, 0]) & (partner[edges[:, 1]] == edges[:, 1])]
        return partner

    @property
    def static(self) -> bool:
        """True if there is at most one edge, so that all rounds are alike."""
        return self.agents <= 2 if self._pattern is None else self._pattern.nnz <= 2

    def key(self, round: int) -> int:
        round = integer("round", round, 0)
        return 0 if self.static else round

    def weights(self, key: int) -> sparse.csr_array:
        return _averages(self._partners(key))

    def graph(self, round: int) -> nx.Graph:
        return with_edges(self._nodes, np.arange(self.agents), self._partners(self.key(round)))

    @property
    def meets_all(self) -> bool:
        """True if every two agents meet again and again."""
        return self._pattern is None

    def union(self) -> sparse.csr_array:
        return complete_pattern(self.agents) if self._pattern is None else self._pattern


class OnePeerExponential(Schedule):
    """A schedule of one-peer exponential graphs: each agent receives from one other, at distances 1, 2, 4, ... in turn [1]_.

    In round n, with t = n mod T and T = ceil(log2 A), the mixing matrix is

        c_ii = c_ij = 1/2,    j = (i + 2^t) mod A,        c = 0 elsewhere.

    It is doubly stochastic, and not symmetric. If A is a power of two, the product of any T successive matrices is exactly the
    average 1 1'/A; otherwise agents agree in the limit.

    Parameters
    ----------
    agents : int
        Number of agents, at least 1.

    References
    ----------
    .. [1] B. Ying, K. Yuan, Y. Chen, H. Hu, P. Pan and W. Yin, "Exponential graph is provably efficient for
       decentralized deep training", NeurIPS 2021, on periodic exact averaging.

    Examples
    --------
    >>> from topologies import OnePeerExponential
    >>> network = OnePeerExponential(4)
    >>> network
    OnePeerExponential(agents=4)
    >>> sorted(network.graph(1).edges)
    [(0, 2), (1, 3), (2, 0), (3, 1)]
    >>> bool((network.weights(0) @ network.weights(1) == 0.25).toarray().all())
    True
    """

    def __init__(self, agents: int) -> None:
        self.agents = integer("agents", agents, 1)
        _checks.memory(f"OnePeerExponential(agents={self.agents})", self.agents, each=100)
        self._turns = max(1, (self.agents - 1).bit_length())

    def __repr__(self) -> str:
        return f"OnePeerExponential(agents={self.agents})"

    def _settings(self) -> Hashable:
        return (self.agents,)

    @property
    def static(self) -> bool:
        """True if there is a single graph, as for two agents."""
        return self._turns == 1

    def _sources(self, turn: int) -> np.ndarray:
        sources: np.ndarray = (np.arange(self.agents) + 2**turn) % self.agents
        return sources

    def key(self, round: int) -> int:
        return integer("round", round, 0) % self._turns

    def weights(self, key: int) -> sparse.csr_array:
        return _averages(self._sources(key))

    def graph(self, round: int) -> nx.Graph:
        nodes = nx.empty_graph(self.agents, create_using=nx.DiGraph)
        return with_edges(nodes, self._sources(self.key(round)), np.arange(self.agents))

    def union(self) -> sparse.csr_array:
        return union_pattern(off_diagonal(self.weights(turn)) for turn in range(self._turns)).T.tocsr()


def _averages(source: np.ndarray) -> sparse.csr_array:
    """Return the matrix by which agent i averages its value and that of agent ``source[i]``."""
    agents = len(source)
    own = np.arange(agents)
    meets = source != own
    columns = np.stack([np.minimum(own, source), np.maximum(own, source)], axis=1)
    stored = np.stack([np.ones(agents, dtype=bool), meets], axis=1)
    data = np.repeat(np.where(meets, 0.5, 1.0), 1 + meets)
    starts = np.concatenate([[0], np.cumsum(1 + meets)])
    return sparse.csr_array((data, columns[stored].astype(np.int32), starts.astype(np.int32)), shape=(agents, agents))
