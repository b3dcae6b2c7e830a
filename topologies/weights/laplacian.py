"""Mixing matrices I - epsilon L from the Laplacian L of a graph."""

import math
from numbers import Real

from scipy import sparse

from topologies.pattern import GraphLike
from topologies.weights.base import balanced, undirected
from topologies.weights.edges import edge_weights


def max_degree(graph: GraphLike) -> sparse.csr_array:
    """Return the maximum-degree mixing matrix, which has the same weight on every edge.

    With d the largest number of neighbours of any agent and d_i that of agent i [1]_,

        c_ij = 1 / (1 + d)   on an edge,        c_ii = 1 - d_i / (1 + d),        c_ij = 0 elsewhere.

    The matrix is symmetric, doubly stochastic and nonnegative, and its diagonal is at least 1 / (1 + d). All agents need to
    know d; `topologies.metropolis` needs only the degrees of neighbours, and its weights are never smaller.

    Parameters
    ----------
    graph : networkx.Graph, symmetric scipy sparse matrix or symmetric numpy array of shape (A, A)
        Undirected graph, read as by `topologies.adjacency`.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        Mixing matrix.

    References
    ----------
    .. [1] L. Xiao and S. Boyd, "Fast linear iterations for distributed averaging" (2004), section 4.1.

    Examples
    --------
    >>> import networkx
    >>> from topologies import max_degree
    >>> max_degree(networkx.path_graph(5))[[1]].toarray().round(2)
    array([[0.33, 0.33, 0.33, 0.  , 0.  ]])
    """
    edges = undirected(graph, "maximum-degree weights")
    return balanced(edges / (1.0 + edges.sum(axis=1).max()))


def laplacian(graph: GraphLike, epsilon: float | None = None, weight: str | None = None) -> sparse.csr_array:
    """Return the Laplacian mixing matrix of a graph, also called Perron matrix.

    With the Laplacian L of edge weights a_ij [1]_, which are 1 by default,

        W = I - epsilon L,        L_ij = -a_ij,   L_ii = d_i = sum_j a_ij.

    The matrix is symmetric and doubly stochastic, and nonnegative with a positive diagonal, because epsilon < 1 / max_i d_i.
    The fastest mixing epsilon is 2 / (lambda_1 + lambda_{A-1}), with the largest and the smallest positive eigenvalue of L
    [2]_.

    Parameters
    ----------
    graph : networkx.Graph, symmetric scipy sparse matrix or symmetric numpy array of shape (A, A)
        Undirected graph, read as by `topologies.adjacency`.
    epsilon : float in (0, 1 / max degree), optional
        By default 1 / (1 + max degree), which gives `max_degree` if edges have no weights. In a schedule, pass
        ``weights=functools.partial(laplacian, epsilon=0.1)``.
    weight : str, optional
        Edge attribute of a networkx graph that holds the weights; the weights of an array are its entries. By default all
        weights are 1.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        Mixing matrix.

    Raises
    ------
    ValueError
        If the weight of an edge is missing, not above 0, or not the same in both directions.

    References
    ----------
    .. [1] R. Olfati-Saber, J. A. Fax and R. M. Murray, "Consensus and cooperation in networked multi-agent systems" (2007),
       Lemma 3 on Perron matrices.
    .. [2] L. Xiao and S. Boyd, "Fast linear iterations for distributed averaging" (2004), section 4.1.

    Examples
    --------
    >>> import networkx
    >>> from topologies import laplacian
    >>> laplacian(networkx.path_graph(3), epsilon=0.25).toarray()
    array([[0.75, 0.25, 0.  ],
           [0.25, 0.5 , 0.25],
           [0.  , 0.25, 0.75]])
    """
    edges = undirected(graph, "Laplacian weights", weight)
    if weight is not None:
        edges = edge_weights(graph, weight)
        rows, columns = (edges != edges.T).nonzero()
        if rows.size:
            there, back = (rows[0], columns[0]), (columns[0], rows[0])
            raise ValueError(
                f"Laplacian weights need an undirected graph, and edge {tuple(map(int, there))} weighs {edges[there]:g} "
                f"one way and {edges[back]:g} the other"
            )
    most = edges.sum(axis=1).max()
    if epsilon is None:
        epsilon = 1.0 / (1.0 + most)
    elif not (isinstance(epsilon, Real) and 0 < epsilon < math.inf and epsilon * most < 1):
        bound = f"1 / max degree) = (0, {1 / most:.6g})" if most else "infinity)"
        raise ValueError(f"epsilon must be a number in (0, {bound}, got {epsilon!r}")
    return balanced(edges * float(epsilon))
