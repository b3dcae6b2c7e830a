"""Which agents news can travel between, and in how many rounds."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from topologies import _checks
from topologies._checks import ROUNDS, SHOWN, integer
from topologies.schedules.base import ScheduleLike, is_static, labels

_PATIENCE = 20  # times as many exchanges as there are agents are looked at before a network counts as not connected


def components(schedule: ScheduleLike) -> list[np.ndarray]:
    """Groups of agents that information can travel between, over all the rounds of a schedule.

    They are the connected components of the graph of all edges that appear again and again, strongly connected ones
    when edges are directed. One component means that the agents are jointly connected, which every method needs to
    bring them all to one point [1]_; with more, each component solves a problem of its own.

    Parameters
    ----------
    schedule : object with ``union()``
        A schedule of `topologies.schedules`.

    Returns
    -------
    list of integer arrays
        The agents of each component in ascending order; components in the order of their first agents.

    References
    ----------
    .. [1] A. Nedic and A. Ozdaglar, "Distributed subgradient methods for multi-agent optimization" (2009),
       Assumption 2.

    Examples
    --------
    >>> import networkx, topologies
    >>> from topologies import components
    >>> [group.tolist() for group in components(topologies.Static(networkx.Graph([(0, 3), (1, 2)])))]
    [[0, 3], [1, 2]]
    """
    wanted = "a schedule with union(), such as topologies.Static(graph)"
    union = _checks.offers("schedule", schedule, ("agents", "union"), wanted).union
    if getattr(schedule, "meets_all", False):  # the union would be a dense matrix
        return [np.arange(schedule.agents)]
    count, group = connected_components(union(), directed=True, connection="strong")
    groups = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group, minlength=count))[:-1])
    return sorted(groups, key=lambda group: group[0])


def parts(schedule: ScheduleLike, groups: Sequence[np.ndarray]) -> str:
    """The first agents of each of some groups, by their labels, for messages.

    Examples
    --------
    >>> import networkx, topologies
    >>> from topologies import components
    >>> from topologies.analysis import parts
    >>> schedule = topologies.Static(networkx.Graph([("ann", "bob"), ("cy", "di"), ("di", "ed"), ("ed", "flo"), ("flo", "cy")]))
    >>> parts(schedule, components(schedule))
    "'ann', 'bob'; 'cy', 'di', 'ed' and 1 more"
    """
    names = labels(schedule)
    shown = []
    for group in groups[:SHOWN]:
        more = len(group) - SHOWN
        shown.append(", ".join(repr(names[k]) for k in group[:SHOWN]) + (f" and {more} more" if more > 0 else ""))
    return "; ".join([*shown, *(["..."] if len(groups) > SHOWN else [])])


def joint_connectivity(schedule: ScheduleLike, rounds: int) -> int | None:
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
    >>> from topologies import joint_connectivity
    >>> pairs = [networkx.Graph([(0, 1), (2, 3)]), networkx.Graph([(1, 2), (0, 3)])]
    >>> joint_connectivity(topologies.Periodic(pairs), 10)
    2
    """
    _checks.schedule(schedule)
    rounds = integer("rounds", rounds, 1, ROUNDS)
    # For every edge, one plus the last round that used it: the union of rounds m, ..., n is what lies above m.
    last = sparse.csr_array((schedule.agents, schedule.agents))
    first = -1  # the latest round m such that the union of rounds m, ..., n is connected; it only moves on
    window = None
    for n in range(rounds):
        last = last.maximum(used(schedule, n) * (n + 1.0))
        while first < n and _connected(last, first + 1):
            first += 1
        if first >= 0:
            # No window is connected that ends before the first connected union does, so B is at least that one's length.
            window = max(n + 1 if window is None else window, n + 1 - first)
    return window


def crossing(schedule: ScheduleLike, round: int = 0) -> int:
    """How many exchanges, the first in a round, it takes until every agent has heard from every other.

    News goes an edge further in each exchange, over the edges of that round. On a graph that stands still it is the
    diameter.

    Parameters
    ----------
    schedule : schedule
    round : int of at least 0

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If it does not happen in 20 times as many exchanges as there are agents; parts of the network that never hear
        from each other are named.

    Examples
    --------
    >>> import topologies
    >>> from topologies.analysis import crossing
    >>> crossing(topologies.Static(topologies.ring(10)))
    5
    """
    agents = _checks.schedule(schedule).agents
    bits = -(-agents // 64) * 64  # of whole words
    everything = np.packbits(np.arange(bits) < agents).view(np.uint64)
    heard = np.packbits(np.eye(agents, bits, dtype=bool), axis=1).view(np.uint64)
    static, matrix = is_static(schedule), None
    for count in range(_PATIENCE * agents + 10):
        if (heard == everything).all():
            return count
        if matrix is None or not static:
            matrix = _checks.matrix(schedule, round + count)
            matrix = sparse.csr_array(abs(matrix) + sparse.eye_array(agents))
        before, heard = heard, np.bitwise_or.reduceat(heard[matrix.indices], matrix.indptr[:-1])
        if static and (heard == before).all():
            break
    groups = components(schedule) if hasattr(schedule, "union") else []
    apart = f"; its {len(groups)} parts are of the agents {parts(schedule, groups)}" if len(groups) > 1 else ""
    raise ValueError(f"in {count} exchanges the agents did not hear from each other: the network must be connected{apart}")


def used(schedule: ScheduleLike, round: int) -> sparse.csr_array:
    """Pattern of the weights between different agents in a round, a CSR array (A, A) of ones.

    Examples
    --------
    >>> import topologies
    >>> from topologies.analysis.connectivity import used
    >>> used(topologies.Static(topologies.path(2)), 0).toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    matrix = sparse.coo_array(_checks.matrix(schedule, round))
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
