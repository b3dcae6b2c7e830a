"""Metropolis weights."""

import numpy as np
from scipy import sparse

from topologies.pattern import GraphLike, entries
from topologies.weights.base import undirected


def metropolis(graph: GraphLike) -> sparse.csr_array:
    """Return the Metropolis-Hastings mixing matrix, which is symmetric and doubly stochastic.

    With d_i the number of neighbours of agent i [1]_,

        c_ij = 1 / (1 + max(d_i, d_j))   on an edge,        c_ii = 1 - sum_j c_ij,        c_ij = 0 elsewhere.

    Each agent needs only the degrees of its neighbours. Since c_ii > 0, repeated mixing on a connected graph takes all agents
    to the average of their initial values.

    Parameters
    ----------
    graph : networkx.Graph, symmetric scipy sparse matrix or symmetric numpy array of shape (A, A)
        Undirected graph, read as by `topologies.adjacency`.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        Mixing matrix with a full diagonal and sorted column indices.

    References
    ----------
    .. [1] L. Xiao, S. Boyd and S. Lall, "Distributed average consensus with time-varying Metropolis weights" (2006).

    Examples
    --------
    >>> import networkx
    >>> from topologies import metropolis
    >>> metropolis(networkx.path_graph(3)).toarray().round(2)
    array([[0.67, 0.33, 0.  ],
           [0.33, 0.33, 0.33],
           [0.  , 0.33, 0.67]])
    """
    pattern = undirected(graph)
    agents = pattern.shape[0]
    return metropolis_entries(agents, *entries(pattern + sparse.eye_array(agents, format="csr")))


def metropolis_entries(agents: int, rows: np.ndarray, columns: np.ndarray) -> sparse.csr_array:
    """Return the Metropolis matrix with nonzeros at the given positions, in row-major order and with the diagonal.

    Schedules call it with the entries of a mask, without building a graph.
    """
    counts = np.bincount(rows, minlength=agents)  # 1 + d_i: the diagonal is included
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(columns.dtype)
    data = 1.0 / np.maximum(counts[rows], counts[columns])
    diagonal = rows == columns
    data[diagonal] = 0.0
    data[diagonal] = 1.0 - np.bincount(rows, data, minlength=agents)
    return sparse.csr_array((data, columns, starts), shape=(agents, agents))
