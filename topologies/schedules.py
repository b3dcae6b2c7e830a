"""Schedules: which mixing matrix the agents use in which round.

A schedule is any object with

- ``agents``: how many there are, A;
- ``key(round)``: hashable, for rounds 0, 1, 2, ...; equal keys mean equal matrices, so that callers can cache by key;
- ``weights(key)``: the mixing matrix as a CSR array (A, A); row i holds what agent i gives to each value it receives,
  so an entry (i, j) off the diagonal needs an edge from j to i;
- ``graph(round)``: a new ``networkx`` graph of that round, with nodes 0, ..., A - 1 and the node attributes of the
  graph it was made from; edge attributes are not kept;
- ``union()``: the CSR pattern of all edges that come back again and again, laid out as by `topologies.adjacency`;
- ``static``, optional: whether all rounds, without end, have the same matrix. It alone says so, to solvers and in
  `topologies.conditions`: a schedule without it counts as one that changes, however alike its first rounds are.

Schedules here keep their edges as arrays, so they are cheap to send to another process, and compare equal when they
are of one kind with equal settings. The arrays they return may be their own: copy before changing one.
"""

from collections.abc import Iterable

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies.graphs import integer
from topologies.schedules_base import Schedule, bare_nodes, content, count_edges, stream, union_pattern, with_edges
from topologies.weights import adjacency, metropolis, metropolis_entries, mixing, undirected


class Static(Schedule):
    """The same graph and mixing matrix in every round.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Read as by `topologies.adjacency`.
    weights : function, default `topologies.metropolis`
        Takes a graph and returns a scipy sparse matrix (A, A). It gets `graph` itself, or a copy with the nodes of a
        networkx graph renamed and ordered 0, ..., A - 1. Called once and not kept, so that it may be a lambda.

    Raises
    ------
    ValueError
        If `weights` returns anything but a finite sparse (A, A) matrix whose nonzeros off the diagonal lie on edges;
        and for whatever `adjacency` and `weights` refuse.

    References
    ----------
    P. Di Lorenzo and G. Scutari, "NEXT: in-network nonconvex optimization" (2016), Assumption B on networks.

    Examples
    --------
    >>> import topologies
    >>> network = Static(topologies.path(3))
    >>> network
    Static(agents=3, edges=2, weights=metropolis)
    >>> network.weights(network.key(7)).toarray().round(2)
    array([[0.67, 0.33, 0.  ],
           [0.33, 0.33, 0.33],
           [0.  , 0.33, 0.67]])
    """

    def __init__(self, graph, weights=metropolis):
        self._pattern = adjacency(graph)
        self.agents = self._pattern.shape[0]
        self._nodes = bare_nodes(graph, self._pattern)
        self._rule = getattr(weights, "__name__", type(weights).__name__)
        self._matrix = mixing(weights, graph, self._pattern)

    static = True

    def __repr__(self):
        return f"Static(agents={self.agents}, edges={count_edges(self._pattern)}, weights={self._rule})"

    def _settings(self):
        return content(self._pattern), content(self._matrix)

    def key(self, round):
        return 0

    def weights(self, key):
        return self._matrix

    def graph(self, round):
        return with_edges(self._nodes, *self._pattern.nonzero())

    def union(self):
        return self._pattern


class Periodic(Schedule):
    """Graphs taken in turn: round n uses ``graphs[n % len(graphs)]``.

    No graph need be connected by itself; consensus needs only that their union is (`topologies.components`) [1]_.

    Parameters
    ----------
    graphs : sequence of graphs, each as in `Static`
        All over the same number of agents.
    weights : function, default `topologies.metropolis`
        As in `Static`; called once for each graph.

    Raises
    ------
    TypeError
        If `graphs` is a single graph.
    ValueError
        If there are no graphs, or their sizes differ; and for whatever `Static` refuses.

    References
    ----------
    .. [1] A. Nedic, A. Olshevsky and W. Shi, "Achieving geometric convergence for distributed optimization over
       time-varying graphs", SIAM Journal on Optimization 27 (2017), on B-connected sequences of graphs.

    Examples
    --------
    >>> import networkx
    >>> network = Periodic([networkx.Graph([(0, 1), (2, 3)]), networkx.Graph([(1, 2), (0, 3)])])
    >>> network
    Periodic(agents=4, period=2, edges=[2, 2], weights=metropolis)
    >>> sorted(network.graph(3).edges)
    [(0, 3), (1, 2)]
    """

    def __init__(self, graphs, weights=metropolis):
        if isinstance(graphs, nx.Graph | np.ndarray) or sparse.issparse(graphs):
            raise TypeError(f"graphs must be a list of graphs, got one {type(graphs).__name__}; use Static for one")
        if not isinstance(graphs, Iterable):
            raise TypeError(f"graphs must be a list of graphs, got {_checks.shown(graphs)}")
        self._turns = tuple(Static(graph, weights) for graph in graphs)
        if not self._turns:
            raise ValueError("graphs is empty; pass at least one graph")
        self.agents = self._turns[0].agents
        for index, turn in enumerate(self._turns):
            if turn.agents != self.agents:
                raise ValueError(f"graphs[{index}] has {turn.agents} agents but graphs[0] has {self.agents}")
        self._alike = all(turn == self._turns[0] for turn in self._turns)

    def __repr__(self):
        edges, rule = [count_edges(turn.union()) for turn in self._turns], self._turns[0]._rule
        shown = ", ".join(map(str, edges[:4])) + (", ..." if len(edges) > 4 else "")
        return f"Periodic(agents={self.agents}, period={len(edges)}, edges=[{shown}], weights={rule})"

    def _settings(self):
        return self._turns

    @property
    def static(self):
        """Whether all graphs are equal."""
        return self._alike

    def key(self, round):
        return integer("round", round, 0) % (1 if self._alike else len(self._turns))

    def weights(self, key):
        return self._turns[key].weights(0)

    def graph(self, round):
        return self._turns[self.key(round)].graph(0)

    def union(self):
        return union_pattern(turn.union() for turn in self._turns)


class RandomEdges(Schedule):
    """Each edge of a graph is there with a given probability, independently in every round; Metropolis weights [1]_.

    The edges of a round depend on `seed` and the round alone, so rounds can be asked for in any order, by any
    process. Every edge comes back again and again, so the agents are jointly connected when `graph` is connected.

    Parameters
    ----------
    graph : networkx.Graph, symmetric scipy sparse matrix or symmetric numpy array of shape (A, A)
        Read as by `topologies.adjacency`.
    probability : float in (0, 1]
    seed : int of at least 0

    Raises
    ------
    ValueError
        If `probability` or `seed` is out of range or `graph` is directed; and for whatever `adjacency` refuses.

    References
    ----------
    .. [1] S. Kar and J. M. F. Moura, "Sensor networks with random links: topology design for distributed consensus",
       IEEE Transactions on Signal Processing 56 (2008).

    Examples
    --------
    >>> import topologies
    >>> network = RandomEdges(topologies.ring(5), 0.5, seed=0)
    >>> network
    RandomEdges(agents=5, edges=5, probability=0.5, seed=0)
    >>> (network.weights(network.key(3)) != topologies.metropolis(network.graph(3))).nnz
    0
    """

    def __init__(self, graph, probability, seed=0):
        why = "; at 0 no agents ever meet"
        self.probability = _checks.real("probability", probability, "a number in (0, 1]", lambda number: 0 < number <= 1, why)
        self.seed = integer("seed", seed, 0)
        self._pattern = undirected(graph)
        self.agents = self._pattern.shape[0]
        self._nodes = bare_nodes(graph, self._pattern)
        # Number the edges 1, ..., E in row-major order above the diagonal and give both entries of an edge its number;
        # the diagonal gets E + 1, an edge that never fails. Everything is in place then but the mask of a round.
        upper = sparse.triu(self._pattern, format="csr")
        upper.data = np.arange(1, upper.nnz + 1)
        entries = (upper + upper.T + (upper.nnz + 1) * sparse.eye_array(self.agents, dtype=int)).tocsr()
        entries.sort_indices()
        rows = np.arange(self.agents, dtype=entries.indices.dtype)
        self._rows, self._columns = np.repeat(rows, np.diff(entries.indptr)), entries.indices
        self._edge = entries.data - 1

    def __repr__(self):
        size = f"agents={self.agents}, edges={count_edges(self._pattern)}"
        return f"RandomEdges({size}, probability={self.probability}, seed={self.seed})"

    def _settings(self):
        return content(self._pattern), self.probability, self.seed

    def _entries(self, round):
        """Rows and columns of the entries of the matrix of a round, the diagonal included, in row-major order."""
        drawn = stream(b"edge", self.seed, round).random(self._pattern.nnz // 2)
        present = np.append(drawn < self.probability, True)
        kept = present[self._edge]
        return self._rows[kept], self._columns[kept]

    @property
    def static(self):
        """Whether no edge is ever missing."""
        return self.probability == 1 or not self._pattern.nnz

    def key(self, round):
        round = integer("round", round, 0)
        return 0 if self.static else round

    def weights(self, key):
        return metropolis_entries(self.agents, *self._entries(key))

    def graph(self, round):
        return with_edges(self._nodes, *self._entries(self.key(round)))

    def union(self):
        return self._pattern
