"""The doubly stochastic matrix that scales the rows and columns of a graph's adjacency matrix."""

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import cg

from topologies import _checks
from topologies.pattern import GraphLike, adjacency, entries, node_order
from topologies.weights.base import received, warn_of_weights
from topologies.weights.edges import edge_weights

ACCURACY = 1e-12
STEPS = 100


def sinkhorn(graph: GraphLike, weight: str | None = None) -> sparse.csr_array:
    """Sinkhorn-Knopp mixing matrix: the doubly stochastic one of the form

        W = D_1 (A' + I) D_2,        D_1, D_2 diagonal and positive,

    where A is the adjacency matrix, with ones or the weights of the edges, and the transpose turns edges j -> i into
    entries (i, j). It exists, and is unique, if and only if A + I has total support, each of its entries lying on a
    permutation inside its pattern [1]_; with the identity there, that says that every edge lies on a directed cycle. So
    it is the way to a doubly stochastic matrix on a strongly connected *directed* graph (compare [2]_).

    Nonnegative, with a positive diagonal and positive weights on all edges; symmetric when the graph is undirected.
    Of all such matrices on these edges it is the nearest to A' + I in relative entropy.

    Scaling rows and columns in turn takes some 1 / (spectral gap) sweeps, thousands on a long path. The logarithms
    p = (log D_1, log D_2) minimise a convex function, sum_ij a_ij exp(p_i + p_j) - sum p, so Newton's method finds them in
    a few steps [3]_, each by conjugate gradients.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Read as by `topologies.adjacency`.
    weight : str, optional
        The attribute of a networkx graph's edges that holds their weights, relative to the weight 1 of every agent for
        itself; an array's weights are its entries. By default all edges weigh 1.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)

    Raises
    ------
    ValueError
        If an edge lies on no directed cycle; if the weight of an edge is missing or not above 0; if weights differ by so
        many orders that rows and columns cannot be made to sum to one within 1e-12; and for whatever
        `topologies.adjacency` refuses.

    References
    ----------
    .. [1] R. Sinkhorn and P. Knopp, "Concerning nonnegative matrices and doubly stochastic matrices", Pacific Journal
       of Mathematics 21 (1967).
    .. [2] B. Gharesifard and J. Cortes, "Distributed strategies for generating weight-balanced and doubly stochastic
       digraphs", European Journal of Control 18 (2012).
    .. [3] P. A. Knight and D. Ruiz, "A fast algorithm for matrix balancing", IMA Journal of Numerical Analysis 33 (2013).

    Examples
    --------
    >>> import networkx
    >>> from topologies import sinkhorn
    >>> sinkhorn(networkx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])).toarray().round(3)
    array([[0.382, 0.   , 0.618],
           [0.382, 0.618, 0.   ],
           [0.236, 0.382, 0.382]])
    """
    if weight is None:
        warn_of_weights(graph)
    edges = adjacency(graph) if weight is None else edge_weights(graph, weight)
    _refuse_one_way(graph, edges)
    agents = edges.shape[0]
    matrix = received(edges)
    if (matrix != matrix.T).nnz == 0:
        logarithms = _logarithms(matrix, np.zeros(agents))
        taken = given = logarithms
    else:
        # Rows and columns are the two sides of a symmetric matrix twice the size.
        sides = sparse.block_array([[None, matrix], [matrix.T, None]], format="csr")
        logarithms = _logarithms(sides, np.repeat([1.0, -1.0], agents))
        taken, given = logarithms[:agents], logarithms[agents:]
    rows, columns = entries(matrix)
    matrix.data *= np.exp(taken[rows] + given[columns])
    return matrix


def _refuse_one_way(graph, edges):
    _, labels = connected_components(edges, directed=True, connection="strong")
    rows, columns = entries(edges)
    one_way = np.flatnonzero(labels[rows] != labels[columns])
    if one_way.size:
        names = node_order(graph) if isinstance(graph, nx.Graph) else range(edges.shape[0])
        shown = _checks.listed(f"({names[rows[k]]}, {names[columns[k]]})" for k in one_way)
        raise ValueError(
            f"no doubly stochastic matrix has all the edges of graph: {shown} lie on "
            "no directed cycle, so what they carry never comes back and adjacency plus identity lacks total support. "
            "Remove these edges, add a way back, or use column-stochastic weights and a push-sum method (topologies.push)"
        )


def _logarithms(matrix, trade):
    """Return p such that the rows of exp(p_i) a_ij exp(p_j) sum to one, for a symmetric nonnegative matrix a.

    Newton's method on f(p) = sum_ij a_ij exp(p_i + p_j) / 2 - sum_i p_i, whose gradient is the row sums minus one. Its
    Hessian, diag(row sums) + scaled matrix, is singular along `trade`, the two sides of each connected component trading
    a factor. The gradient is orthogonal to that direction but for rounding errors; these are taken off, because conjugate
    gradients would not converge with them.
    """
    _, labels = connected_components(matrix, directed=False)
    sizes = np.bincount(labels)
    rows, columns = entries(matrix)
    logarithm = np.log(matrix.data)

    def at(p):
        scaled = np.exp(logarithm + p[rows] + p[columns])
        sums = np.bincount(rows, scaled, minlength=p.size)
        return scaled, sums, scaled.sum() / 2 - p.sum(), abs(sums - 1).max()

    p = -np.log(matrix.sum(axis=1)) / 2
    scaled, sums, value, error = at(p)
    for _ in range(STEPS):
        if error <= 2 * np.finfo(float).eps:
            break
        hessian = sparse.csr_array((scaled, matrix.indices, matrix.indptr), shape=matrix.shape) + sparse.diags_array(sums)
        descent = 1 - sums
        descent -= trade * (np.bincount(labels, trade * descent) / sizes)[labels]
        step, _ = cg(hessian, descent, rtol=1e-9, M=sparse.diags_array(1 / hessian.diagonal()))
        slope = step @ (sums - 1)
        length = min(1.0, 4.0 / abs(step).max())  # keeps exponentials finite far from the solution
        while length > 1e-6:
            trial = at(p + length * step)
            # Close to the solution the value no longer shows progress in floating point, but the error does.
            if trial[3] <= error / 2 or trial[2] < value + 1e-4 * length * slope:
                break
            length /= 2
        else:
            break
        p = p + length * step
        scaled, sums, value, error = trial
    if error > ACCURACY:
        raise ValueError(
            f"rows and columns could not be scaled to sum to one: {error:.1g} is missing. The weights of edges differ by too "
            "many orders of magnitude; bring them closer to 1"
        )
    return p
