"""Metropolis weights."""

import numpy as np
from scipy import sparse

from topologies.pattern import GraphLike, entries
from topologies.weights.base import undirected


def metropolis(graph: GraphLike) -> sparse.csr_array:
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
    >>> from topologies import metropolis
    >>> metropolis(networkx.star_graph(3)).toarray()
    array([[0.25, 0.25, 0.25, 0.25],
           [0.25, 0.75, 0.  , 0.  ],
           [0.25, 0.  , 0.75, 0.  ],
           [0.25, 0.  , 0.  , 0.75]])
    """
    pattern = undirected(graph)
    agents = pattern.shape[0]
    return metropolis_entries(agents, *entries(pattern + sparse.eye_array(agents, format="csr")))


def metropolis_entries(agents: int, rows: np.ndarray, columns: np.ndarray) -> sparse.csr_array:
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
    >>> import numpy as np
    >>> from topologies.weights.metropolis import metropolis_entries
    >>> metropolis_entries(2, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    counts = np.bincount(rows, minlength=agents)  # 1 + d_i, as the diagonal counts too
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(columns.dtype)
    data = 1.0 / np.maximum(counts[rows], counts[columns])
    diagonal = rows == columns
    data[diagonal] = 0.0
    data[diagonal] = 1.0 - np.bincount(rows, data, minlength=agents)
    return sparse.csr_array((data, columns, starts), shape=(agents, agents))
