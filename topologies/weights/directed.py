"""Mixing matrices for directed graphs that need only an agent's own number of neighbours: push and pull."""

import numpy as np
from scipy import sparse

from topologies.pattern import GraphLike, adjacency
from topologies.weights.base import received, warn_of_weights


def push(graph: GraphLike) -> sparse.csr_array:
    """Column-stochastic mixing matrix: every agent splits what it has evenly over itself and those it sends to.

    With the out-degree d_j of agent j, the number of edges that leave it [1]_,

        c_ij = 1 / (1 + d_j)   for j = i and on every edge from j to i,        c_ij = 0 elsewhere.

    Columns sum to one and the diagonal is positive, so no mass is lost: sum_i (C x)_i = sum_i x_i. Rows do not, unless
    the graph is regular; push-sum methods (SONATA, Push-DIGing, SGP) undo that by dividing by a mass that is mixed along,
    and reach the average on every strongly connected graph [1]_, [2]_. An agent needs to know only how many hear it.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Read as by `topologies.adjacency`; an undirected edge sends both ways.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)

    Raises
    ------
    ValueError, TypeError
        For whatever `topologies.adjacency` refuses.

    References
    ----------
    .. [1] A. Nedic and A. Olshevsky, "Distributed optimization over time-varying directed graphs", IEEE Transactions
       on Automatic Control 60 (2015), on the subgradient-push method.
    .. [2] D. Kempe, A. Dobra and J. Gehrke, "Gossip-based computation of aggregate information", FOCS (2003), on
       push-sum.

    Examples
    --------
    >>> import networkx
    >>> from topologies import push
    >>> push(networkx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])).toarray().round(2)
    array([[0.33, 0.  , 0.5 ],
           [0.33, 0.5 , 0.  ],
           [0.33, 0.5 , 0.5 ]])
    """
    edges = adjacency(graph)
    warn_of_weights(graph)
    matrix = received(edges)
    matrix.data = (1.0 / (1.0 + np.diff(edges.indptr)))[matrix.indices]
    return matrix


def pull(graph: GraphLike) -> sparse.csr_array:
    """Row-stochastic mixing matrix: every agent averages itself and those it receives from with equal weights.

    With the in-degree d_i of agent i, the number of edges that end at it [1]_,

        r_ij = 1 / (1 + d_i)   for j = i and on every edge from j to i,        r_ij = 0 elsewhere.

    Rows sum to one and the diagonal is positive, so agents that agree stay as they are, and on a strongly connected graph
    repeated mixing brings all to one value: not the average unless the columns sum to one too, but one weighted by the
    left eigenvector of the matrix. It is the first of the two matrices of push-pull methods, `push` the second [1]_.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Read as by `topologies.adjacency`; an undirected edge sends both ways.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)

    Raises
    ------
    ValueError, TypeError
        For whatever `topologies.adjacency` refuses.

    References
    ----------
    .. [1] S. Pu, W. Shi, J. Xu and A. Nedic, "Push-pull gradient methods for distributed optimization in networks",
       IEEE Transactions on Automatic Control 66 (2021), Assumption 2 on R and C.

    Examples
    --------
    >>> import networkx
    >>> from topologies import pull
    >>> pull(networkx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])).toarray().round(2)
    array([[0.5 , 0.  , 0.5 ],
           [0.5 , 0.5 , 0.  ],
           [0.33, 0.33, 0.33]])
    """
    matrix = received(adjacency(graph))
    warn_of_weights(graph)
    entries = np.diff(matrix.indptr)  # 1 + d_i, as the diagonal counts too
    matrix.data = np.repeat(1.0 / entries, entries)
    return matrix
