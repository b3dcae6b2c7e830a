"""Adjacency patterns: sparse matrices over the agents, made from graphs and converted back to networkx.

A graph is a ``networkx.Graph`` or ``DiGraph``, or a square matrix whose nonzero entries (i, j) are the edges from i to j: a
scipy sparse matrix, a numpy array or a pandas DataFrame. Patterns ignore edge weights; functions that read them have a
parameter ``weight``.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from functools import reduce
from itertools import chain
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, cast

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from topologies import _names
from topologies._checks import listed, numbers, unmasked

if TYPE_CHECKING:
    from jaxtyping import Float

_EMPTY = "graph is empty; it needs at least one agent"
_MIXES = "; if these are the weights that agents mix with, pass topologies.schedule_from_matrix(graph)"


class Frame(Protocol):
    """A table with names of rows and columns, such as a pandas DataFrame."""

    index: Any
    columns: Any

    def to_numpy(self, dtype: Any = ..., *, na_value: Any = ...) -> np.ndarray:  # noqa: ANN401  # as pandas has it
        """Return the cells as an array."""
        ...


Graph: TypeAlias = nx.Graph | sparse.sparray | sparse.spmatrix | np.ndarray
GraphLike: TypeAlias = Graph | Frame


def is_table(value: object) -> TypeGuard[Frame]:
    """Return whether a value is a table with names of columns, of pandas or another library."""
    return hasattr(value, "columns") and hasattr(value, "to_numpy")


def named(graph: GraphLike) -> Graph:
    """Return a graph as it is, and a table of edges as a networkx graph of its names, in the order of the rows."""
    if not is_table(graph):
        return cast(Graph, graph)  # or of another type: `adjacency` says so
    if not hasattr(graph, "index"):
        raise TypeError(
            f"graph is a {type(graph).__module__.partition('.')[0]} {type(graph).__name__}, whose rows have no names; pass "
            "graph.to_numpy() if it has one column an agent, in the order of the rows"
        )
    names, matrix = table(graph, "graph")
    broken = np.argwhere(~np.isfinite(matrix))
    if broken.size:
        cells = listed(f"({names[i]}, {names[j]})" for i, j in broken.tolist())
        raise ValueError(f"graph has cells that are empty or not finite, at {cells}; pass graph.fillna(0) if they are no edges")
    loops = [names[k] for k in np.flatnonzero(matrix.diagonal()).tolist()]
    if loops:
        mixes = any(np.allclose(matrix.sum(axis=axis), 1) for axis in (0, 1))
        raise ValueError(
            f"graph has self-loops at {listed(loops)}; remove them with graph.mask(graph.index.astype(str).to_numpy()[:, None] "
            f"== graph.columns.astype(str).to_numpy(), 0){_MIXES if mixes else ''}"
        )
    there = matrix != 0
    directed = not np.array_equal(there, there.T)
    unequal = [] if directed else np.argwhere(matrix != matrix.T).tolist()
    for i, j in unequal[:1]:
        raise ValueError(
            f"graph has the weights {matrix[i, j]:g} and {matrix[j, i]:g} for the two directions of ({names[i]}, {names[j]}); "
            "pass graph != 0 for edges without weights, or networkx.from_pandas_adjacency(graph, create_using=networkx.DiGraph)"
        )
    found = nx.DiGraph() if directed else nx.Graph()
    found.add_nodes_from(names)
    found.add_weighted_edges_from((names[i], names[j], matrix[i, j].item()) for i, j in np.argwhere(there).tolist())
    return found


def table(frame: Frame, what: str) -> tuple[list[Hashable], np.ndarray]:
    """Return the names of the rows of a square table, and its cells with the columns in the order of the rows.

    The names 10 and "10" are the same: of a file whose rows are read as numbers the header is text.
    """
    rows, columns = list(frame.index), list(frame.columns)
    for axis, names in (("rows", rows), ("columns", columns)):
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            raise ValueError(f"{axis} of {what} must have different names; {listed(twice)} occur more than once")
    place = {_names.identity(name): k for k, name in enumerate(columns)}
    same = [_names.identity(name) for name in rows]
    if len(place) != len(columns) or len(set(same)) != len(rows) or set(same) != set(place):
        raise ValueError(f"rows and columns of {what} must have the same names; {_foreign(rows, columns, what)}")
    order = [place[name] for name in same]
    try:
        cells = frame.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{what} must have cells that are numbers ({error})") from None
    return rows, cells[:, order]


def _foreign(rows: list[Hashable], columns: list[Hashable], what: str) -> str:
    """Return which names only rows or only columns have, and a remedy."""
    numbered, others = rows == list(range(len(rows))), set(map(str, rows)) - set(map(str, columns))
    if numbered and len(columns) == len(rows) + 1:
        return f"its rows have none: pass {what}.set_index({columns[0]!r})"
    if numbered and len(columns) == len(rows):
        return (
            f"its rows have none, but its columns have {listed(columns)}: pass {what}.set_axis({what}.columns) if the rows "
            "have the same order, or read the file by pandas.read_csv(path, index_col=0)"
        )
    only = sorted(others) or sorted(set(map(str, columns)) - set(map(str, rows)))
    return f"only its {'rows' if others else 'columns'} have {listed(only)}: pass {what}.reindex(index=names, columns=names)"


def node_order(graph: nx.Graph) -> Sequence[Hashable]:
    """Return the nodes of a networkx graph in the order of the agents.

    Nodes that are all whole numbers, or digits as text, are in the order of the numbers; all others keep that of the graph.
    """
    nodes = list(graph)
    missing = [node for node in nodes if _names.is_missing(node)]
    if missing:  # of a table of edges with empty cells
        raise ValueError(f"nodes of the graph must be names; one is missing, {missing[0]!r}: drop the edges that lack an end")
    if not all(type(node) is int for node in nodes):
        try:
            _names.checked("nodes of the graph", nodes)
        except ValueError as error:
            raise ValueError(f"{error}: networkx.relabel_nodes(graph, str) makes one node of 1 and '1'") from None
    ordered = [nodes[place] for place in _names.as_numbers(nodes)]
    integers = all(isinstance(node, Integral) and not isinstance(node, bool) for node in nodes)
    return range(len(nodes)) if integers and ordered == list(range(len(nodes))) else ordered


def labels_of(graph: GraphLike) -> tuple[Hashable, ...] | None:
    """Return the names of the agents of a graph: its nodes, or the attributes ``"label"`` of nodes 0, ..., A - 1, or None."""
    if not isinstance(graph, nx.Graph):
        return None
    names = node_order(graph)
    if not isinstance(names, range):
        return tuple(names)
    given = [graph.nodes[node].get("label") for node in names]
    try:
        return tuple(given) if None not in given and len(set(given)) == len(given) else None
    except TypeError:  # labels for figures alone, such as lists
        return None


def say_order(graph: Any) -> bool:  # noqa: ANN401  # any graph
    """Return whether the nodes of a networkx graph, or the rows of a table, were ordered as numbers, and tell the log."""
    graph = named(graph)
    return isinstance(graph, nx.Graph) and _names.say_order("the nodes of the graph", node_order(graph), list(graph))


def adjacency(graph: GraphLike) -> Float[sparse.csr_array, "agents agents"]:
    """Return the adjacency pattern of a graph: entry (i, j) is 1 if there is an edge from i to j, else 0.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix, numpy array or pandas DataFrame of shape (A, A)
        The nodes of a DataFrame are the names of its rows; its columns have the same names, in any order.
        If the nodes are whole numbers, or digits as text, such as 1, ..., A or "10", "20", "40", they are the agents in the
        order of these numbers. Otherwise agent k is the k-th node in the order of the graph. The graphs of a schedule have the
        nodes 0, ..., A - 1 and keep other original names as the node attribute ``"label"``.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        Pattern with an empty diagonal and sorted column indices; symmetric if the graph is undirected.

    Raises
    ------
    TypeError
        If `graph` has none of these types.
    ValueError
        If `graph` is empty or a multigraph, has a self-loop, or is a matrix that is not square or not finite, has masked
        entries, or has different names of rows and columns.

    Examples
    --------
    >>> import networkx
    >>> from topologies import adjacency
    >>> adjacency(networkx.path_graph(3)).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    names: Sequence[object]
    graph = named(graph)
    if isinstance(graph, nx.Graph):
        pattern, names = _from_networkx(graph)
        remedy = "graph.remove_edges_from(list(networkx.selfloop_edges(graph)))"
    elif sparse.issparse(graph) or isinstance(graph, np.ndarray):
        pattern = _from_array(graph)
        names = range(pattern.shape[0])
        remedy = "graph.setdiag(0)" if sparse.issparse(graph) else "numpy.fill_diagonal(graph, 0)"
    else:
        wanted = "a networkx.Graph or DiGraph, a scipy sparse matrix, a square numpy array or a pandas DataFrame"
        made = "networkx.Graph(graph) of edges or of lists of neighbours by node, numpy.array(graph) of the rows of a matrix"
        raise TypeError(f"graph must be {wanted}, got {type(graph).__name__}; take {made}")
    loops = np.flatnonzero(pattern.diagonal())
    if loops.size:
        shown = listed(names[k] for k in loops.tolist())
        mixes = not isinstance(graph, nx.Graph) and any(np.allclose(graph.sum(axis=axis), 1) for axis in (0, 1))
        raise ValueError(f"graph has self-loops at {shown}; remove them with {remedy}{_MIXES if mixes else ''}")
    return pattern


def _from_networkx(graph: nx.Graph) -> tuple[sparse.csr_array, Sequence[object]]:
    if graph.is_multigraph():
        doubled = [edge for edge, times in Counter(graph.edges()).items() if times > 1]
        shown = f", with parallel edges {listed(doubled)}" if doubled else ""
        simple = "DiGraph" if graph.is_directed() else "Graph"
        raise ValueError(f"graph is a {type(graph).__name__}{shown}; pass networkx.{simple}(graph)")
    if not len(graph):
        raise ValueError(_EMPTY)
    names = node_order(graph)
    agent = {name: k for k, name in enumerate(names)}
    neighbours = [(agent[name], found) for name, found in graph.adjacency()]
    rows = np.repeat([k for k, _ in neighbours], [len(found) for _, found in neighbours])
    columns = np.fromiter(map(agent.get, chain.from_iterable(found for _, found in neighbours)), int, len(rows))
    return _pattern(sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(names), len(names)))), names


def _from_array(graph: sparse.sparray | np.ndarray) -> sparse.csr_array:
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        edges = "" if 2 not in graph.shape else f"; of edges, networkx.Graph(graph{'.T' * (graph.shape[0] == 2)}.tolist())"
        raise ValueError(f"an adjacency matrix must be square, got shape {graph.shape}{edges}")
    if not graph.shape[0]:
        raise ValueError(_EMPTY)
    if isinstance(graph, np.ndarray):
        graph = unmasked("the adjacency matrix", graph, "graph.filled(0), if they are no edges")
        graph = numbers("the adjacency matrix", graph) if graph.dtype.kind not in "fiub" else graph
    # A copy, because the next two operations work in place. SciPy has no matrices of float16, or of another byte order.
    pattern = sparse.csr_array(graph, dtype=np.float64, copy=True)
    pattern.sum_duplicates()
    pattern.eliminate_zeros()
    if not np.isfinite(pattern.data).all():
        raise ValueError("the adjacency matrix has entries that are not finite; pass zeros and ones")
    return _pattern(pattern)


def _pattern(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return ones at the stored entries of a CSR matrix, with 32-bit indices if they are wide enough."""
    width = np.int32 if max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max else np.int64
    indices, starts = matrix.indices.astype(width, copy=False), matrix.indptr.astype(width, copy=False)
    return sparse.csr_array((np.ones(matrix.nnz), indices, starts), shape=matrix.shape)


def edge_values(name: str, value: ArrayLike | Frame, pattern: sparse.csr_array, labels: Sequence[Hashable]) -> np.ndarray:
    """Return the value of each edge of a pattern, in its order, from a matrix (A, A) or a table with the names of agents."""
    agents, given = pattern.shape[0], cast(Any, value)
    if is_table(value):
        names, given = table(value, name)
        place = {_names.identity(label): k for k, label in enumerate(names)}
        numbered = names == list(range(len(names)))
        if {*place} == set(map(_names.identity, labels)):
            order = [place[_names.identity(label)] for label in labels]
            given = given[np.ix_(order, order)]
        elif not numbered:
            raise ValueError(f"{name} must have the names of the agents, {listed(labels)}; got {listed(names)}")
    matrix = numbers(name, given.toarray() if sparse.issparse(given) else given)
    if matrix.shape != (agents, agents):
        raise ValueError(
            f"{name} must be a number, or a matrix of shape (agents, agents) = {(agents, agents)}; got {matrix.shape}"
        )
    found: np.ndarray = matrix[entries(pattern)]
    return found


def bare_nodes(graph: GraphLike, pattern: sparse.csr_array) -> nx.Graph:
    """Return a networkx graph of the agents without edges; it keeps node attributes, and original names as ``"label"``."""
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
    """Return a copy of ``nodes`` with edges from ``rows`` to ``columns``; undirected edges are given in both directions."""
    graph = nodes.copy()
    wanted = rows != columns if graph.is_directed() else rows < columns
    graph.add_edges_from(zip(rows[wanted].tolist(), columns[wanted].tolist()))
    return graph


def content(matrix: sparse.csr_array) -> tuple[bytes, bytes, bytes]:
    """Return the contents of a CSR matrix as bytes, for comparison."""
    return matrix.indptr.astype(int).tobytes(), matrix.indices.astype(int).tobytes(), matrix.data.tobytes()


def count_edges(pattern: sparse.csr_array) -> int:
    """Return the number of edges; two opposite directed edges count as one."""
    return int(sparse.triu(pattern + pattern.T).nnz)


def union_pattern(patterns: Iterable[sparse.csr_array]) -> sparse.csr_array:
    """Return the pattern of the edges that occur in any of the given patterns."""
    total = reduce(operator.add, patterns)
    return sparse.csr_array((np.ones(total.nnz), total.indices, total.indptr), shape=total.shape)


def pairs_pattern(agents: int, first: np.ndarray, second: np.ndarray, diagonal: bool = False) -> sparse.csr_array:
    """Return the pattern of undirected edges between ``first[k]`` and ``second[k]``, which list every pair once.

    With ``diagonal`` every agent is its own neighbour, too.
    """
    own = np.arange(agents if diagonal else 0, dtype=np.int32)
    first, second = first.astype(np.int32, copy=False), second.astype(np.int32, copy=False)
    ends = np.concatenate([first, second, own]), np.concatenate([second, first, own])
    # Conversion through CSC sorts the entries of each row in linear time.
    return sparse.coo_array((np.ones(len(ends[0])), ends), shape=(agents, agents)).tocsc().tocsr()


def off_diagonal(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the pattern of the nonzeros off the diagonal of a CSR matrix without duplicate entries."""
    rows, columns = entries(matrix)
    kept = (rows != columns) & (matrix.data != 0)
    return sparse.csr_array((np.ones(kept.sum()), (rows[kept], columns[kept])), shape=matrix.shape)


def complete_pattern(agents: int) -> sparse.csr_array:
    """Return the pattern of the complete graph."""
    width: type[np.integer] = np.int32 if agents * (agents - 1) <= np.iinfo(np.int32).max else np.int64
    others = np.arange(agents - 1, dtype=width)
    columns = others + (others >= np.arange(agents, dtype=width)[:, None])
    starts = np.arange(agents + 1, dtype=width) * (agents - 1)
    return sparse.csr_array((np.ones(columns.size), columns.ravel(), starts), shape=(agents, agents))


def entries(matrix: sparse.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and the columns of the stored entries of a CSR matrix, in row-major order."""
    rows = np.arange(matrix.shape[0], dtype=matrix.indices.dtype)
    return np.repeat(rows, np.diff(matrix.indptr)), matrix.indices
