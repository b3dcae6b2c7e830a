"""What schedules share: equality, random streams, networkx graphs of their rounds, a bounded memory of past work."""

import operator
from functools import reduce

import networkx as nx
import numpy as np
from scipy import sparse

from topologies.weights import node_order


class Schedule:
    """Equality and hash by `_settings()`, what fixes every matrix of a schedule.

    Attributes
    ----------
    static : bool
        Whether all rounds, without end, are known to have the same matrix. A class with a ``key`` of its own is taken to
        change unless it says otherwise itself, whatever it was derived from.
    """

    static = False

    def __init_subclass__(cls, **settings):
        super().__init_subclass__(**settings)
        if "key" in vars(cls) and "static" not in vars(cls):
            cls.static = False

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return self._settings() == other._settings()

    def __hash__(self):
        return hash((type(self), self._settings()))


def is_static(schedule):
    """Whether a schedule, a user's own too, says that all rounds have the same matrix; False where it says nothing."""
    return bool(getattr(schedule, "static", False))


def labels(schedule):
    """What each agent is called: the attribute ``"label"`` of the graphs' nodes, else its number.

    Examples
    --------
    >>> import topologies
    >>> labels(topologies.Static(nx.Graph([("ann", "bob")])))
    ['ann', 'bob']
    """
    nodes = schedule.graph(0).nodes if hasattr(schedule, "graph") else {}
    return [nodes[k].get("label", k) if k in nodes else k for k in range(schedule.agents)]


class Recent:
    """The last few results of some work, by key. It is empty again when it has been sent to another process.

    Examples
    --------
    >>> squares = Recent(most=2)
    >>> [squares.get(n, lambda n=n: n * n) for n in (2, 3, 2)]
    [4, 9, 4]
    """

    def __init__(self, most=8):
        self._most, self._results = most, {}

    def __reduce__(self):
        return Recent, (self._most,)

    def get(self, key, make):
        """Return the result kept under `key`; else call ``make()`` and keep what it returns in place of the oldest."""
        if key not in self._results:
            result = make()
            if len(self._results) >= self._most:
                del self._results[next(iter(self._results))]
            self._results[key] = result
        return self._results[key]


def stream(tag, seed, round):
    """Random generator of a round; `tag`, four bytes, keeps the uses of one seed apart.

    Examples
    --------
    >>> stream(b"edge", 0, 5).random() == stream(b"edge", 0, 5).random() != stream(b"link", 0, 5).random()
    True
    """
    # A spawn key, unlike a list of integers, keeps apart the streams of any two pairs (seed, round).
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int.from_bytes(tag, "big"), round)))


def bare_nodes(graph, pattern):
    """Return a networkx graph with the agents as its nodes, their attributes, and no edges yet.

    Where nodes of `graph` are called anything but 0, ..., A - 1, agents bear that as the attribute ``"label"``.
    """
    if isinstance(graph, nx.Graph):
        names = node_order(graph)
        bare = nx.DiGraph() if graph.is_directed() else nx.Graph()
        bare.add_nodes_from(
            (k, graph.nodes[name] if isinstance(names, range) else {"label": name} | graph.nodes[name])
            for k, name in enumerate(names)
        )
        return bare
    symmetric = (pattern != pattern.T).nnz == 0
    return nx.empty_graph(pattern.shape[0], create_using=nx.Graph if symmetric else nx.DiGraph)


def with_edges(nodes, rows, columns):
    """Return a copy of a graph without edges that has those from `rows` to `columns`, an undirected one given twice."""
    graph = nodes.copy()
    wanted = rows != columns if graph.is_directed() else rows < columns
    graph.add_edges_from(zip(rows[wanted].tolist(), columns[wanted].tolist()))
    return graph


def content(matrix):
    """Return the bytes that tell a CSR matrix from others."""
    return matrix.indptr.astype(int).tobytes(), matrix.indices.astype(int).tobytes(), matrix.data.tobytes()


def count_edges(pattern):
    """Count edges: both entries of an undirected edge, or of two opposite directed ones, are one edge."""
    return sparse.triu(pattern + pattern.T).nnz


def union_pattern(patterns):
    """Pattern of all edges that are in one `topologies.adjacency` pattern or another.

    Examples
    --------
    >>> union_pattern(sparse.csr_array([[0.0, k], [1.0, 0.0]]) for k in (0.0, 1.0)).toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    total = reduce(operator.add, patterns)
    return sparse.csr_array((np.ones(total.nnz), total.indices, total.indptr), shape=total.shape)


def pairs_pattern(agents, first, second, diagonal=False):
    """Pattern of the undirected edges between ``first[k]`` and ``second[k]``, no pair given twice.

    Parameters
    ----------
    agents : int
    first, second : integer arrays, shape (edges,)
    diagonal : bool
        Whether every agent counts as its own neighbour.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (agents, agents)
        Ones, column indices sorted: without the diagonal, as by `topologies.adjacency`.

    Examples
    --------
    >>> pairs_pattern(3, np.array([1, 0]), np.array([2, 1])).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    own = np.arange(agents if diagonal else 0, dtype=np.int32)
    first, second = first.astype(np.int32, copy=False), second.astype(np.int32, copy=False)
    ends = np.concatenate([first, second, own]), np.concatenate([second, first, own])
    # Going through columns sorts the entries of each row in linear time.
    return sparse.coo_array((np.ones(len(ends[0])), ends), shape=(agents, agents)).tocsc().tocsr()


def complete_pattern(agents):
    """Pattern of all edges there can be, laid out as by `topologies.adjacency`.

    Examples
    --------
    >>> complete_pattern(3).toarray()
    array([[0., 1., 1.],
           [1., 0., 1.],
           [1., 1., 0.]])
    """
    width = np.int32 if agents * (agents - 1) <= np.iinfo(np.int32).max else np.int64
    others = np.arange(agents - 1, dtype=width)
    columns = others + (others >= np.arange(agents, dtype=width)[:, None])
    starts = np.arange(agents + 1, dtype=width) * (agents - 1)
    return sparse.csr_array((np.ones(columns.size), columns.ravel(), starts), shape=(agents, agents))


def entries(matrix):
    """Return the rows and the columns of the stored entries of a CSR matrix, in row-major order."""
    rows = np.arange(matrix.shape[0], dtype=matrix.indices.dtype)
    return np.repeat(rows, np.diff(matrix.indptr)), matrix.indices
