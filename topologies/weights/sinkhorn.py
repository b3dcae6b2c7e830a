"""Sinkhorn weights: the adjacency matrix with rows and columns scaled to sum to one."""

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import cg

from topologies import _checks
from topologies.pattern import GraphLike, adjacency, entries, named, node_order
from topologies.weights.base import received, warn_of_weights
from topologies.weights.edges import edge_weights

ACCURACY = 1e-12
STEPS = 100


def sinkhorn(graph: GraphLike, weight: str | None = None) -> sparse.csr_array:
    """Return the Sinkhorn-Knopp mixing matrix, the doubly stochastic scaling of the adjacency matrix.

    With the adjacency matrix A, of ones or edge weights, transposed so that an edge from j to i is entry (i, j), it is

        W = D_1 (A' + I) D_2,        D_1, D_2 diagonal and positive.

    It exists, and is unique, if and only if A + I has total support [1]_: if every edge lies on a directed cycle, as in every
    strongly connected directed graph (compare [2]_). All weights on edges and the diagonal are positive; W is symmetric if the
    graph is undirected. The logarithms p = (log D_1, log D_2) minimise the convex function sum_ij a_ij exp(p_i + p_j) - sum p,
    by a few Newton steps with conjugate gradients [3]_.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Read as by `topologies.adjacency`.
    weight : str, optional
        Edge attribute of a networkx graph that holds the weights, relative to the weight 1 of every agent for itself; the
        weights of an array are its entries. By default all weights are 1.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        Mixing matrix.

    Raises
    ------
    ValueError
        If an edge lies on no directed cycle; if the weight of an edge is missing or not above 0; if weights differ by so
        many orders of magnitude that the sums cannot reach one within 1e-12.

    References
    ----------
    .. [1] R. Sinkhorn and P. Knopp, "Concerning nonnegative matrices and doubly stochastic matrices" (1967).
    .. [2] B. Gharesifard and J. Cortes, "Distributed strategies for generating weight-balanced and doubly stochastic
       digraphs" (2012).
    .. [3] P. A. Knight and D. Ruiz, "A fast algorithm for matrix balancing" (2013).

    Examples
    --------
    >>> import networkx
    >>> from topologies import sinkhorn
    >>> sinkhorn(networkx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])).toarray().round(3)
    array([[0.382, 0.   , 0.618],
           [0.382, 0.618, 0.   ],
           [0.236, 0.382, 0.382]])
    """
    graph = named(graph)
    edges = adjacency(graph) if weight is None else edge_weights(graph, weight)
    if weight is None:
        warn_of_weights(graph)
    _reject_one_way(graph, edges)
    agents = edges.shape[0]
    matrix = received(edges)
    if (matrix != matrix.T).nnz == 0:
        logarithms = _logarithms(matrix, np.zeros(agents))
        taken = given = logarithms
    else:
        # Scaling rows and columns apart is scaling a symmetric matrix of twice the size.
        sides = sparse.block_array([[None, matrix], [matrix.T, None]], format="csr")
        logarithms = _logarithms(sides, np.repeat([1.0, -1.0], agents))
        taken, given = logarithms[:agents], logarithms[agents:]
    rows, columns = entries(matrix)
    matrix.data *= np.exp(taken[rows] + given[columns])
    return matrix


def _reject_one_way(graph: GraphLike, edges: sparse.csr_array) -> None:
    """Raise ValueError if an edge lies on no directed cycle."""
    _, labels = connected_components(edges, directed=True, connection="strong")
    rows, columns = entries(edges)
    one_way = np.flatnonzero(labels[rows] != labels[columns])
    if one_way.size:
        names = node_order(graph) if isinstance(graph, nx.Graph) else range(edges.shape[0])
        shown = _checks.listed(f"({names[rows[k]]}, {names[columns[k]]})" for k in one_way)
        raise ValueError(
            f"no doubly stochastic matrix has all the edges of graph: {shown} lie on no directed cycle, so adjacency plus "
            "identity lacks total support. Remove these edges, add a way back, or use column-stochastic weights and a "
            "push-sum method (topologies.push)"
        )


def _logarithms(matrix: sparse.csr_array, kernel: np.ndarray) -> np.ndarray:
    """Return p such that the rows of exp(p_i) a_ij exp(p_j) sum to one, for a symmetric nonnegative matrix a.

    Newton's method minimises f(p) = sum_ij a_ij exp(p_i + p_j) / 2 - sum_i p_i. The gradient is the row sums minus one; the
    Hessian, diag(row sums) + scaled matrix, is singular along `kernel`, in each connected component. The gradient is
    orthogonal to `kernel` except for rounding errors, which are removed, because conjugate gradients would diverge.
    """
    _, labels = connected_components(matrix, directed=False)
    sizes = np.bincount(labels)
    rows, columns = entries(matrix)
    logarithm = np.log(matrix.data)

    def at(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        scaled = np.exp(logarithm + p[rows] + p[columns])
        sums = np.bincount(rows, scaled, minlength=p.size)
        return scaled, sums, scaled.sum() / 2 - p.sum(), abs(sums - 1).max()

    p: np.ndarray = -np.log(matrix.sum(axis=1)) / 2
    scaled, sums, value, error = at(p)
    for _ in range(STEPS):
        if error <= 2 * np.finfo(float).eps:
            break
        hessian = sparse.csr_array((scaled, matrix.indices, matrix.indptr), shape=matrix.shape) + sparse.diags_array(sums)
        descent = 1 - sums
        descent -= kernel * (np.bincount(labels, kernel * descent) / sizes)[labels]
        step, _ = cg(hessian, descent, rtol=1e-9, M=sparse.diags_array(1 / hessian.diagonal()))
        slope = step @ (sums - 1)
        length = min(1.0, 4.0 / abs(step).max())  # keeps exponentials finite far from the solution
        while length > 1e-6:
            trial = at(p + length * step)
            # Near the solution rounding hides the decrease of the value, but not that of the error.
            if trial[3] <= error / 2 or trial[2] < value + 1e-4 * length * slope:
                break
            length /= 2
        else:
            break
        p = p + length * step
        scaled, sums, value, error = trial
    if error > ACCURACY:
        raise ValueError(
            f"sums of rows and columns cannot be scaled to one: an error of {error:.1g} remains, because edge weights differ "
            "by too many orders of magnitude; bring them closer to 1"
        )
    return p
