"""From a graph to a sparse matrix over agents: its adjacency pattern and its mixing matrices.

A graph is a ``networkx.Graph`` or ``DiGraph``, a scipy sparse matrix, or a square numpy array whose nonzero entries
(i, j) are the edges from i to j. Only who is a neighbour of whom matters here; functions elsewhere that can also read
weights of edges have an argument `weight` for it.
"""

from collections import Counter
from itertools import chain
from numbers import Integral

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks

SHOWN = 3


def _first(items):
    items = list(items)
    return ", ".join(str(item) for item in items[:SHOWN]) + (", ..." if len(items) > SHOWN else "")


def node_order(graph):
    """Return the nodes of a networkx graph in the order of the agents.

    Node k is agent k when the labels are exactly 0, ..., A - 1, whatever order they were added in; in the same way integers
    m, ..., m + A - 1, such as 1, ..., A, are the agents in their order. Else agent k is the k-th node in iteration order.
    """
    nodes = list(graph)
    if not all(isinstance(node, Integral) and not isinstance(node, bool) for node in nodes):
        return nodes
    least = min(nodes, default=0)
    if max(nodes, default=-1) - least + 1 != len(nodes):
        return nodes
    return range(len(nodes)) if least == 0 else sorted(nodes)


def warn_of_weights(graph):
    """Warn that the weights of a networkx graph's edges are not read, where they say anything."""
    if isinstance(graph, nx.Graph) and any(weight != 1 for _, _, weight in graph.edges(data="weight", default=1)):
        _checks.warn(
            "edge attribute 'weight' is ignored by weights that look at neighbours alone; topologies.laplacian and "
            "topologies.sinkhorn read it: weights=lambda graph: topologies.sinkhorn(graph, weight='weight')"
        )


def adjacency(graph):
    """Pattern of a graph over its A agents: entry (i, j) is 1 when there is an edge from i to j.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Labels 0, ..., A - 1 are the agents themselves, in the same way integers without a gap that begin elsewhere, such as
        1, ..., A, in their order; with other labels agent k is the k-th node of the graph. Then agents bear the labels as the
        node attribute ``"label"`` of a schedule's graphs.

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
        raise ValueError(f"graph has self-loops at {_first(names[k] for k in loops)}; remove them with {remedy}")
    return pattern


def _refuse_empty(agents):
    if agents == 0:
        raise ValueError("graph is empty; it needs at least one agent")


def _from_networkx(graph):
    if graph.is_multigraph():
        doubled = [edge for edge, times in Counter(graph.edges()).items() if times > 1]
        shown = f", with parallel edges {_first(doubled)}" if doubled else ""
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


def undirected(graph, rule="Metropolis weights", weight=None):
    """Return the adjacency pattern of a graph; raise ValueError, in the name of `rule`, when it is directed."""
    pattern = adjacency(graph)
    if isinstance(graph, nx.Graph):
        fault = "this one is a DiGraph" if graph.is_directed() else None
    else:
        one_way = ((pattern - pattern.T) > 0).nonzero()
        shown = _first(zip(*(index.tolist() for index in one_way)))
        fault = f"the adjacency matrix has no edge back for {shown}" if shown else None
    if fault:
        raise ValueError(
            f"{rule} need an undirected graph, and {fault}; use column-stochastic weights and a push-sum method for "
            "directed ones (topologies.push)"
        )
    if weight is None:
        warn_of_weights(graph)
    return pattern


def metropolis(graph):
    """Metropolis-Hastings mixing matrix, symmetric and doubly stochastic.

    With d_i the number of neighbours of agent i [1]_,

        c_ij = 1 / (1 + max(d_i, d_j))   on an edge,        c_ii = 1 - sum_j c_ij,        c_ij = 0 elsewhere.

    Each agent needs only its neighbours' degrees, and c_ii >= 1 / (1 + d_i) > 0, so on a connected graph repeated
    mixing brings all agents to the average of their starting values.

    Parameters
    ----------
    graph : networkx.Graph, symmetric scipy sparse matrix or symmetric numpy array of shape (A, A)
        Read as by `adjacency`.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        The diagonal is always stored, and column indices are sorted.

    Raises
    ------
    ValueError
        For a directed graph, whose agents cannot all balance what they send against what they receive; and for
        whatever `adjacency` refuses.

    References
    ----------
    .. [1] L. Xiao, S. Boyd and S. Lall, "Distributed average consensus with time-varying Metropolis weights" (2006);
       L. Xiao, S. Boyd and S.-J. Kim, "Distributed average consensus with least-mean-square deviation" (2007).

    Examples
    --------
    >>> import networkx
    >>> metropolis(networkx.star_graph(3)).toarray()
    array([[0.25, 0.25, 0.25, 0.25],
           [0.25, 0.75, 0.  , 0.  ],
           [0.25, 0.  , 0.75, 0.  ],
           [0.25, 0.  , 0.  , 0.75]])
    """
    pattern = undirected(graph)
    agents = pattern.shape[0]
    entries = pattern + sparse.eye_array(agents, format="csr")
    rows = np.repeat(np.arange(agents, dtype=entries.indices.dtype), np.diff(entries.indptr))
    return metropolis_entries(agents, rows, entries.indices)


def metropolis_entries(agents, rows, columns):
    """Metropolis matrix from the positions of its entries, the diagonal among them.

    Parameters
    ----------
    agents : int
    rows, columns : integer arrays, shape (entries,)
        In row-major order. Schedules come here straight from a mask of edges, without building a graph.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (agents, agents)

    Examples
    --------
    >>> metropolis_entries(2, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    entries = np.bincount(rows, minlength=agents)  # 1 + d_i, as the diagonal counts too
    starts = np.concatenate([[0], np.cumsum(entries)]).astype(columns.dtype)
    data = 1.0 / np.maximum(entries[rows], entries[columns])
    diagonal = rows == columns
    data[diagonal] = 0.0
    data[diagonal] = 1.0 - np.bincount(rows, data, minlength=agents)
    return sparse.csr_array((data, columns, starts), shape=(agents, agents))


def mixing(weights, graph, pattern):
    """Call a weights function on a graph with this `adjacency` pattern; return a float64 CSR matrix that fits it.

    Raises
    ------
    TypeError
        If `weights` is not a function.
    ValueError
        If its result is not a finite sparse (A, A) matrix, or has a nonzero off the diagonal and the edges. Agent i
        can weigh only what it receives, and agent j sends to i along an edge from j to i.

    Examples
    --------
    >>> import networkx
    >>> graph = networkx.path_graph(2)
    >>> mixing(metropolis, graph, adjacency(graph)).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    if not callable(weights):
        raise TypeError(f"weights must be a function from a graph to a matrix, got a {type(weights).__name__}")
    name = f"weights function {getattr(weights, '__name__', type(weights).__name__)}"
    if isinstance(graph, nx.Graph) and list(graph) != list(range(len(graph))):
        # The order of networkx's own matrices is that of iteration, so make it that of the agents.
        agent = {label: k for k, label in enumerate(node_order(graph))}
        ordered = nx.empty_graph(len(graph), create_using=nx.DiGraph if graph.is_directed() else nx.Graph)
        ordered.update(nx.relabel_nodes(graph, agent))
        graph = ordered
    matrix = weights(graph)
    if not sparse.issparse(matrix) or matrix.shape != pattern.shape:
        found = f"{type(matrix).__name__} of shape {getattr(matrix, 'shape', None)}"
        raise ValueError(f"{name} must return a scipy sparse matrix of shape {pattern.shape}, got {found}")
    matrix = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"{name} returned entries that are not finite")
    stray = (matrix - matrix.multiply(pattern.T + sparse.eye_array(pattern.shape[0]))).nonzero()
    if stray[0].size:
        shown = _first(zip(*(index.tolist() for index in stray)))
        raise ValueError(f"{name} returned nonzeros off the edges of the graph: (i, j) = {shown} without edge j to i")
    return matrix
