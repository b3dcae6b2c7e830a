"""What weights share: what they ask of a graph, the call of a weights function, sums of rows that come out as one."""

from collections.abc import Callable
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
from scipy import sparse

from topologies import _checks
from topologies.pattern import GraphLike, adjacency, node_order

# From a graph to its mixing matrix, such as `topologies.metropolis`.
Weights: TypeAlias = Callable[[Any], sparse.sparray | sparse.spmatrix]


def weights_function(value: Any, remedy: str = "") -> Weights:
    """Return ``value`` if it can be called; raise TypeError, which ends with ``remedy``, otherwise."""
    if not callable(value):
        raise TypeError(f"weights must be a function from a graph to a matrix, got a {type(value).__name__}{remedy}")
    return value


def warn_of_weights(graph: GraphLike) -> None:
    """Warn that the weights of a networkx graph's edges are not read, unless all of them are 1."""
    if isinstance(graph, nx.Graph) and any(weight != 1 for _, _, weight in graph.edges(data="weight", default=1)):
        _checks.warn(
            "edge attribute 'weight' is ignored by weights that look at neighbours alone; topologies.laplacian and "
            "topologies.sinkhorn read it: weights=lambda graph: topologies.sinkhorn(graph, weight='weight')"
        )


def undirected(graph: GraphLike, rule: str = "Metropolis weights", weight: str | None = None) -> sparse.csr_array:
    """Return the adjacency pattern of a graph; raise ValueError, in the name of ``rule``, when it is directed."""
    pattern = adjacency(graph)
    if isinstance(graph, nx.Graph):
        fault = "this one is a DiGraph" if graph.is_directed() else None
    else:
        one_way = ((pattern - pattern.T) > 0).nonzero()
        shown = _checks.listed(zip(*(index.tolist() for index in one_way)))
        fault = f"the adjacency matrix has no edge back for {shown}" if shown else None
    if fault:
        raise ValueError(
            f"{rule} need an undirected graph, and {fault}; use column-stochastic weights and a push-sum method for "
            "directed ones (topologies.push)"
        )
    if weight is None:
        warn_of_weights(graph)
    return pattern


def received(edges: sparse.csr_array) -> sparse.csr_array:
    """A' + I of an adjacency matrix A: entry (i, j) belongs to what agent i receives from j, and to what it has itself.

    Examples
    --------
    >>> from scipy import sparse
    >>> from topologies.weights.base import received
    >>> received(sparse.csr_array([[0.0, 3.0], [0.0, 0.0]])).toarray()
    array([[1., 0.],
           [3., 1.]])
    """
    return sparse.csr_array(edges.T.tocsr() + sparse.eye_array(edges.shape[0], format="csr"))


def mixing_matrix(weights: Weights, graph: GraphLike, pattern: sparse.csr_array) -> sparse.csr_array:
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
    >>> import topologies
    >>> from topologies import adjacency
    >>> from topologies.weights.base import mixing_matrix
    >>> graph = topologies.path(2)
    >>> mixing_matrix(topologies.metropolis, graph, adjacency(graph)).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    name = f"weights function {_checks.name_of(weights_function(weights))}"
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
    stray = (matrix - matrix.multiply(received(pattern))).nonzero()
    if stray[0].size:
        shown = _checks.listed(zip(*(index.tolist() for index in stray)))
        raise ValueError(f"{name} returned nonzeros off the edges of the graph: (i, j) = {shown} without edge j to i")
    return matrix


def balanced(weights: sparse.csr_array) -> sparse.csr_array:
    """Mixing matrix with the given weights between agents, in which every agent keeps the rest for itself.

    Parameters
    ----------
    weights : scipy.sparse.csr_array, shape (A, A)
        Symmetric, without a diagonal, in canonical format.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        Symmetric, rows and columns sum to one; zeros are not stored, because every entry stored is a message.

    Examples
    --------
    >>> from scipy import sparse
    >>> from topologies.weights.base import balanced
    >>> balanced(sparse.csr_array([[0, 0.25], [0.25, 0]])).toarray()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    kept = sparse.diags_array(1.0 - np.asarray(weights.sum(axis=1)), format="csr")
    matrix = sparse.csr_array(weights + kept)
    matrix.eliminate_zeros()
    return matrix
