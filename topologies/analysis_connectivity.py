"""Over how many rounds the graphs of a schedule must be joined to connect all agents."""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from topologies.graphs import integer


def joint_connectivity(schedule, rounds):
    """Smallest window B such that in every B consecutive rounds the edges used connect all agents.

    The union of the graphs of rounds n, ..., n + B - 1 is (strongly) connected for every n >= 0 with
    n + B <= `rounds`. An edge from j to i is used in a round when the mixing matrix has a nonzero entry (i, j). That there is
    such a B at all, and weights bounded away from zero, is what makes agents agree over changing graphs, and the rates
    get worse with B: Assumptions 2 and 3 of [1]_; of directed graphs and push-sum it is asked by [2]_; NEXT asks it as
    part of its Assumption B [3]_.

    Parameters
    ----------
    schedule : schedule
    rounds : int of at least 1
        How many are looked at, from round 0 on.

    Returns
    -------
    int or None
        None when not even all of the rounds together connect the agents.

    Raises
    ------
    ValueError
        If `rounds` is below 1.

    References
    ----------
    .. [1] A. Nedic and A. Ozdaglar, "Distributed subgradient methods for multi-agent optimization", IEEE Transactions
       on Automatic Control 54 (2009).
    .. [2] A. Nedic and A. Olshevsky, "Distributed optimization over time-varying directed graphs", IEEE Transactions
       on Automatic Control 60 (2015), Assumption 1.
    .. [3] P. Di Lorenzo and G. Scutari, "NEXT: in-network nonconvex optimization", IEEE Transactions on Signal and
       Information Processing over Networks 2 (2016).

    Examples
    --------
    >>> import networkx, topologies
    >>> pairs = [networkx.Graph([(0, 1), (2, 3)]), networkx.Graph([(1, 2), (0, 3)])]
    >>> joint_connectivity(topologies.Periodic(pairs), 10)
    2
    """
    rounds = integer("rounds", rounds, 1)
    # For every edge, one plus the last round that used it: the union of rounds m, ..., n is what lies above m.
    last = sparse.csr_array((schedule.agents, schedule.agents))
    first = -1  # the latest round m such that the union of rounds m, ..., n is connected; it only moves on
    window = None
    for n in range(rounds):
        last = last.maximum(used(schedule, n) * (n + 1.0))
        while first < n and _connected(last, first + 1):
            first += 1
        if first >= 0:
            # Windows that end before the first union that is connected are not, so B is at least as long as that.
            window = max(n + 1 if window is None else window, n + 1 - first)
    return window


def used(schedule, round):
    """Pattern of the weights between different agents in a round, a CSR array (A, A) of ones.

    Examples
    --------
    >>> import topologies
    >>> used(topologies.Static(topologies.path(2)), 0).toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    matrix = sparse.coo_array(schedule.weights(schedule.key(round)))
    rows, columns = matrix.coords
    kept = (rows != columns) & (matrix.data != 0)
    pattern = sparse.csr_array((np.ones(kept.sum()), (rows[kept], columns[kept])), shape=matrix.shape)
    pattern.data[:] = 1.0  # entries given twice were added up
    return pattern


def _connected(last, first):
    kept = last.data > first
    starts = np.concatenate([[0], np.cumsum(kept)])[last.indptr]
    union = sparse.csr_array((last.data[kept], last.indices[kept], starts), shape=last.shape)
    return connected_components(union, directed=True, connection="strong", return_labels=False) == 1
