"""Column-stochastic and row-stochastic weights of directed graphs, from the degree of each agent alone."""

import numpy as np
from scipy import sparse

from topologies.pattern import GraphLike, adjacency
from topologies.weights.base import received, warn_of_weights


def push(graph: GraphLike) -> sparse.csr_array:
    """Return a column-stochastic mixing matrix: every agent divides its value evenly among itself and its receivers.

    With the out-degree d_j of agent j [1]_,

        c_ij = 1 / (1 + d_j)   for j = i and on every edge from j to i,        c_ij = 0 elsewhere.

    Columns sum to one, so mixing preserves the sum over the agents. Push-sum methods (SONATA, Push-DIGing, SGP) divide by a
    mass that is mixed in the same way, and so reach the average on every strongly connected graph [1]_, [2]_.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Read as by `topologies.adjacency`; an undirected edge counts in both directions.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        Mixing matrix with a positive diagonal.

    References
    ----------
    .. [1] A. Nedic and A. Olshevsky, "Distributed optimization over time-varying directed graphs" (2015), subgradient-push.
    .. [2] D. Kempe, A. Dobra and J. Gehrke, "Gossip-based computation of aggregate information" (2003), push-sum.

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
    """Return a row-stochastic mixing matrix: every agent averages its value and those that it receives with equal weights.

    With the in-degree d_i of agent i [1]_,

        r_ij = 1 / (1 + d_i)   for j = i and on every edge from j to i,        r_ij = 0 elsewhere.

    Rows sum to one, so agents that agree do not change. On a strongly connected graph repeated mixing takes all agents to an
    average weighted by the left eigenvector of the matrix. Push-pull methods use it together with the matrix of `push` [1]_.

    Parameters
    ----------
    graph : networkx.Graph, networkx.DiGraph, scipy sparse matrix or numpy array of shape (A, A)
        Read as by `topologies.adjacency`; an undirected edge counts in both directions.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        Mixing matrix with a positive diagonal.

    References
    ----------
    .. [1] S. Pu, W. Shi, J. Xu and A. Nedic, "Push-pull gradient methods for distributed optimization in networks" (2021),
       Assumption 2 on R and C.

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
    entries = np.diff(matrix.indptr)  # 1 + d_i: the diagonal is included
    matrix.data = np.repeat(1.0 / entries, entries)
    return matrix
