"""What weights share: the call of a user's function, and the diagonal that makes rows sum to one."""

import networkx as nx
import numpy as np
from scipy import sparse

from topologies._checks import listed
from topologies.pattern import node_order


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
    >>> import topologies
    >>> graph = topologies.path(2)
    >>> mixing(topologies.metropolis, graph, topologies.adjacency(graph)).toarray()
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
        shown = listed(zip(*(index.tolist() for index in stray)))
        raise ValueError(f"{name} returned nonzeros off the edges of the graph: (i, j) = {shown} without edge j to i")
    return matrix


def balanced(weights):
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
    >>> balanced(sparse.csr_array([[0, 0.25], [0.25, 0]])).toarray()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    kept = sparse.diags_array(1.0 - np.asarray(weights.sum(axis=1)), format="csr")
    matrix = sparse.csr_array(weights + kept)
    matrix.eliminate_zeros()
    return matrix
