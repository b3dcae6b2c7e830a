"""Schedules: which mixing matrix the agents use in which round.

A schedule is any object with

- ``agents``: how many there are, A;
- ``key(round)``: hashable, for rounds 0, 1, 2, ...; equal keys mean equal matrices, so that callers can cache by key;
- ``weights(key)``: the mixing matrix as a CSR array (A, A); row i holds what agent i gives to each value it receives,
  so an entry (i, j) off the diagonal needs an edge from j to i;
- ``graph(round)``: a new ``networkx`` graph of that round, with nodes 0, ..., A - 1 and the node attributes of the
  graph it was made from; edge attributes are not kept;
- ``union()``: the CSR pattern of all edges that come back again and again, laid out as by `topologies.adjacency`.

Schedules here keep their edges as arrays, so they are cheap to send to another process; they compare equal when they
are of one kind and give the same matrices in every round.
"""

from numbers import Real

import networkx as nx
import numpy as np
from scipy import sparse

from topologies.graphs import integer
from topologies.weights import adjacency, metropolis, metropolis_entries, node_order, undirected

# Marks the random stream of edges, so that other uses of the same seed are independent of it.
EDGE_STREAM = int.from_bytes(b"edge", "big")


class _Schedule:
    """Equality and hash by `_settings()`, the arrays and numbers that fix every matrix of a schedule."""

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self._settings() == other._settings()

    def __hash__(self):
        return hash((type(self), self._settings()))


class Static(_Schedule):
    """The same graph and mixing matrix in every round.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Read as by `topologies.adjacency`.
    weights : function, default `topologies.metropolis`
        Takes a graph and returns a scipy sparse matrix (A, A). It gets `graph` itself, or, when the nodes of a
        networkx graph are not 0, ..., A - 1 in this order, a copy in which they are. Called once, and not kept, so
        that it may be a lambda.

    Raises
    ------
    ValueError
        If what `weights` returns is not a sparse (A, A) matrix, is not finite, or gives agent i weight on a j that
        has no edge to i; and for whatever `adjacency` and `weights` refuse.

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
        self._nodes = _bare_nodes(graph, self._pattern)
        self._rule = getattr(weights, "__name__", type(weights).__name__)
        self._matrix = _checked(weights(_in_order(graph)), self._pattern, self._rule)

    def __repr__(self):
        return f"Static(agents={self.agents}, edges={_edges(self._pattern)}, weights={self._rule})"

    def _settings(self):
        return _content(self._pattern), _content(self._matrix)

    def key(self, round):
        return 0

    def weights(self, key):
        return self._matrix

    def graph(self, round):
        return _with_edges(self._nodes, *self._pattern.nonzero())

    def union(self):
        return self._pattern


class Periodic(_Schedule):
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
       time-varying graphs" (2017), Assumption 1 on B-connected graphs.

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
        self._turns = tuple(Static(graph, weights) for graph in graphs)
        if not self._turns:
            raise ValueError("graphs is empty; pass at least one graph")
        self.agents = self._turns[0].agents
        for index, turn in enumerate(self._turns):
            if turn.agents != self.agents:
                raise ValueError(
                    f"graphs[{index}] has {turn.agents} agents but graphs[0] has {self.agents}; all need the same"
                )

    def __repr__(self):
        edges = [_edges(turn.union()) for turn in self._turns]
        return (
            f"Periodic(agents={self.agents}, period={len(edges)}, edges={_short(edges)}, weights={self._turns[0]._rule})"
        )

    def _settings(self):
        return self._turns

    def key(self, round):
        return integer("round", round, 0) % len(self._turns)

    def weights(self, key):
        return self._turns[key].weights(0)

    def graph(self, round):
        return self._turns[self.key(round)].graph(0)

    def union(self):
        total = sum((turn.union() for turn in self._turns[1:]), self._turns[0].union())
        return sparse.csr_array((np.ones(total.nnz), total.indices, total.indptr), shape=total.shape)


class RandomEdges(_Schedule):
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
    >>> abs(network.weights(network.key(3)) - topologies.metropolis(network.graph(3))).max() == 0
    True
    """

    def __init__(self, graph, probability, seed=0):
        if not (isinstance(probability, Real) and 0 < probability <= 1):
            raise ValueError(f"probability must be a number in (0, 1], got {probability!r}; at 0 no agents ever meet")
        self.probability, self.seed = float(probability), integer("seed", seed, 0)
        self._pattern = undirected(graph)
        self.agents = self._pattern.shape[0]
        self._nodes = _bare_nodes(graph, self._pattern)
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
        return (
            f"RandomEdges(agents={self.agents}, edges={_edges(self._pattern)}, probability={self.probability}, "
            f"seed={self.seed})"
        )

    def _settings(self):
        return _content(self._pattern), self.probability, self.seed

    def _entries(self, round):
        """Rows and columns of the entries of the matrix of a round, the diagonal included, in row-major order."""
        # A spawn key, unlike a list of integers, keeps apart the streams of any two pairs (seed, round).
        stream = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(EDGE_STREAM, round)))
        present = np.append(stream.random(self._pattern.nnz // 2) < self.probability, True)
        kept = present[self._edge]
        return self._rows[kept], self._columns[kept]

    def key(self, round):
        return integer("round", round, 0)

    def weights(self, key):
        return metropolis_entries(self.agents, *self._entries(key))

    def graph(self, round):
        return _with_edges(self._nodes, *self._entries(self.key(round)))

    def union(self):
        return self._pattern


def _in_order(graph):
    """Return a networkx graph whose nodes are 0, ..., A - 1 in order: the same one, or a copy; arrays as they are."""
    if not isinstance(graph, nx.Graph) or list(graph) == list(range(len(graph))):
        return graph
    ordered = nx.empty_graph(len(graph), create_using=type(graph))
    ordered.update(nx.relabel_nodes(graph, {name: k for k, name in enumerate(node_order(graph))}))
    return ordered


def _bare_nodes(graph, pattern):
    """Return a networkx graph with the agents as its nodes, their attributes, and no edges yet."""
    if isinstance(graph, nx.Graph):
        bare = nx.DiGraph() if graph.is_directed() else nx.Graph()
        bare.add_nodes_from((k, graph.nodes[name]) for k, name in enumerate(node_order(graph)))
        return bare
    symmetric = (pattern != pattern.T).nnz == 0
    return nx.empty_graph(pattern.shape[0], create_using=nx.Graph if symmetric else nx.DiGraph)


def _with_edges(nodes, rows, columns):
    graph = nodes.copy()
    wanted = rows != columns if graph.is_directed() else rows < columns
    graph.add_edges_from(zip(rows[wanted].tolist(), columns[wanted].tolist()))
    return graph


def _checked(matrix, pattern, rule):
    """Return a mixing matrix as float64 CSR; raise ValueError when it does not belong to the graph."""
    if not sparse.issparse(matrix) or matrix.shape != pattern.shape:
        found = f"{type(matrix).__name__} of shape {getattr(matrix, 'shape', None)}"
        raise ValueError(f"weights function {rule} must return a scipy sparse matrix {pattern.shape}, got a {found}")
    matrix = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"weights function {rule} returned entries that are not finite")
    # Agent i can only weigh what it receives, and agent j sends to i along an edge from j to i.
    stray = matrix - matrix.multiply(pattern.T + sparse.eye_array(pattern.shape[0]))
    entries = np.transpose(stray.nonzero())
    if len(entries):
        shown = ", ".join(str(tuple(entry)) for entry in entries[:3].tolist())
        raise ValueError(
            f"weights function {rule} has {len(entries)} nonzeros off the edges of the graph, first at (i, j) = {shown}; "
            "entry (i, j) needs an edge from j to i"
        )
    return matrix


def _content(matrix):
    return matrix.indptr.astype(int).tobytes(), matrix.indices.astype(int).tobytes(), matrix.data.tobytes()


def _edges(pattern):
    """Count edges: both entries of an undirected edge, or of two opposite directed ones, are one edge."""
    return sparse.triu(pattern + pattern.T).nnz


def _short(numbers):
    return str(numbers) if len(numbers) <= 4 else f"[{', '.join(map(str, numbers[:3]))}, ...]"
