"""From a graph to the pattern of its edges, a sparse matrix over the agents; other patterns; and back to networkx.

A graph is a ``networkx.Graph`` or ``DiGraph``, a scipy sparse matrix, or a square numpy array whose nonzero entries (i, j) are
the edges from i to j. Only who is a neighbour of whom matters here; what also reads weights of edges has an argument `weight`.
"""

import operator
from collections import Counter
from collections.abc import Iterable
from functools import reduce
from itertools import chain
from numbers import Integral
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
from scipy import sparse

from topologies._checks import listed

GraphLike: TypeAlias = nx.Graph | sparse.sparray | sparse.spmatrix | np.ndarray


def node_order(graph: nx.Graph) -> list[Any] | range:
    """Return the nodes of a networkx graph in the order of the agents.

    Integers without a gap, m, ..., m + A - 1, are the agents in ascending order, whatever order they were added in. Of other
    nodes the k-th in iteration order is agent k.
    """
    nodes = list(graph)
    if not all(isinstance(node, Integral) and not isinstance(node, bool) for node in nodes):
        return nodes
    least = min(nodes, default=0)
    if max(nodes, default=-1) - least + 1 != len(nodes):
        return nodes
    return range(len(nodes)) if least == 0 else sorted(nodes)


def adjacency(graph: GraphLike) -> sparse.csr_array:
    """Pattern of a graph over its A agents: entry (i, j) is 1 when there is an edge from i to j.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Nodes that are integers without a gap, such as 0, ..., A - 1 or 1, ..., A, are the agents in ascending order; of
        other nodes the k-th in the graph's own order is agent k. Unless they are 0, ..., A - 1, the nodes of a schedule's
        graphs keep what they were called here as their attribute ``"label"``.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        Ones, no diagonal, column indices sorted. Symmetric when the graph is undirected.

    Raises
    ------
    TypeError
        If `graph` is none of these.
    ValueError
        For a multigraph, a self-loop, no agents at all, or an array that is not square or has an entry that is not
        finite. Agents mix with themselves through the diagonal of a mixing matrix, not through an edge, and a doubled
        edge would not change it, so both are taken for mistakes.

    Examples
    --------
    >>> import networkx
    >>> from topologies import adjacency
    >>> adjacency(networkx.path_graph(3)).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    if isinstance(graph, nx.Graph):
        pattern, names = _from_networkx(graph)
        remedy = "graph.remove_edges_from(list(networkx.selfloop_edges(graph)))"
    elif sparse.issparse(graph) or isinstance(graph, np.ndarray):
        pattern = _from_array(graph)
        names = range(pattern.shape[0])
        remedy = "graph.setdiag(0)" if sparse.issparse(graph) else "numpy.fill_diagonal(graph, 0)"
    else:
        raise TypeError(
            f"graph must be a networkx.Graph or DiGraph, a scipy sparse matrix or a square numpy array, "
            f"got {type(graph).__name__}"
        )
    loops = np.flatnonzero(pattern.diagonal())
    if loops.size:
        raise ValueError(f"graph has self-loops at {listed(names[k] for k in loops)}; remove them with {remedy}")
    return pattern


def _refuse_empty(agents):
    if agents == 0:
        raise ValueError("graph is empty; it needs at least one agent")


def _from_networkx(graph):
    if graph.is_multigraph():
        doubled = [edge for edge, times in Counter(graph.edges()).items() if times > 1]
        shown = f", with parallel edges {listed(doubled)}" if doubled else ""
        simple = "DiGraph" if graph.is_directed() else "Graph"
        raise ValueError(f"graph is a {type(graph).__name__}{shown}; pass networkx.{simple}(graph)")
    _refuse_empty(len(graph))
    names = node_order(graph)
    agent = {name: k for k, name in enumerate(names)}
    neighbours = [(agent[name], found) for name, found in graph.adjacency()]
    rows = np.repeat([k for k, _ in neighbours], [len(found) for _, found in neighbours])
    columns = np.fromiter(map(agent.get, chain.from_iterable(found for _, found in neighbours)), int, len(rows))
    return _pattern(sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(names), len(names)))), names


def _from_array(graph):
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise ValueError(f"an adjacency matrix must be square, got shape {graph.shape}")
    _refuse_empty(graph.shape[0])
    # Copied, because summing duplicates, dropping stored zeros and sorting happen in place.
    pattern = sparse.csr_array(graph, copy=True)
    pattern.sum_duplicates()
    pattern.eliminate_zeros()
    if not np.isfinite(pattern.data).all():
        raise ValueError("the adjacency matrix has entries that are not finite; pass zeros and ones")
    return _pattern(pattern)


def _pattern(matrix):
    """Return ones where a CSR matrix stores an entry, with 32-bit indices whenever they are wide enough."""
    width = np.int32 if max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max else np.int64
    indices, starts = matrix.indices.astype(width, copy=False), matrix.indptr.astype(width, copy=False)
    return sparse.csr_array((np.ones(matrix.nnz), indices, starts), shape=matrix.shape)


def bare_nodes(graph: GraphLike, pattern: sparse.csr_array) -> nx.Graph:
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


def with_edges(nodes: nx.Graph, rows: np.ndarray, columns: np.ndarray) -> nx.Graph:
    """Return a copy of a graph without edges that has those from `rows` to `columns`, an undirected one given twice."""
    graph = nodes.copy()
    wanted = rows != columns if graph.is_directed() else rows < columns
    graph.add_edges_from(zip(rows[wanted].tolist(), columns[wanted].tolist()))
    return graph


def content(matrix: sparse.csr_array) -> tuple[bytes, bytes, bytes]:
    """Return the bytes that tell a CSR matrix from others."""
    return matrix.indptr.astype(int).tobytes(), matrix.indices.astype(int).tobytes(), matrix.data.tobytes()


def count_edges(pattern: sparse.csr_array) -> int:
    """Count edges: both entries of an undirected edge, or of two opposite directed ones, are one edge."""
    return sparse.triu(pattern + pattern.T).nnz


def union_pattern(patterns: Iterable[sparse.csr_array]) -> sparse.csr_array:
    """Pattern of all edges that are in one `topologies.adjacency` pattern or another.

    Examples
    --------
    >>> from scipy import sparse
    >>> from topologies.pattern import union_pattern
    >>> union_pattern(sparse.csr_array([[0.0, k], [1.0, 0.0]]) for k in (0.0, 1.0)).toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    total = reduce(operator.add, patterns)
    return sparse.csr_array((np.ones(total.nnz), total.indices, total.indptr), shape=total.shape)


def pairs_pattern(agents: int, first: np.ndarray, second: np.ndarray, diagonal: bool = False) -> sparse.csr_array:
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
    >>> import numpy as np
    >>> from topologies.pattern import pairs_pattern
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


def complete_pattern(agents: int) -> sparse.csr_array:
    """Pattern of all edges there can be, laid out as by `topologies.adjacency`.

    Examples
    --------
    >>> from topologies.pattern import complete_pattern
    >>> complete_pattern(3).toarray()
    array([[0., 1., 1.],
           [1., 0., 1.],
           [1., 1., 0.]])
    """
    width: type[np.integer] = np.int32 if agents * (agents - 1) <= np.iinfo(np.int32).max else np.int64
    others = np.arange(agents - 1, dtype=width)
    columns = others + (others >= np.arange(agents, dtype=width)[:, None])
    starts = np.arange(agents + 1, dtype=width) * (agents - 1)
    return sparse.csr_array((np.ones(columns.size), columns.ravel(), starts), shape=(agents, agents))


def entries(matrix: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and the columns of the stored entries of a CSR matrix, in row-major order."""
    rows = np.arange(matrix.shape[0], dtype=matrix.indices.dtype)
    return np.repeat(rows, np.diff(matrix.indptr)), matrix.indices
