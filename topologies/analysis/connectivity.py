"""Connectivity of schedules, and the number of exchanges to reach all agents."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from topologies import _checks
from topologies._checks import ROUNDS, SHOWN, integer
from topologies.matrices import canonical
from topologies.pattern import off_diagonal
from topologies.schedules.protocols import ScheduleLike, is_static, labels, mixing_matrix

_PATIENCE = 20  # exchanges for each agent after which a network counts as not connected


def components(schedule: ScheduleLike) -> list[np.ndarray]:
    """Return the groups of agents between which information can travel over the rounds of a schedule.

    They are the (strongly) connected components of the graph of all edges that appear again and again. All methods need a
    single one to reach consensus [1]_; otherwise each component solves a problem of its own.

    Parameters
    ----------
    schedule : schedule
        Schedule with ``union()``, such as those of this package.

    Returns
    -------
    list of numpy arrays
        Agents of each component in ascending order; components in the order of their first agents.

    References
    ----------
    .. [1] A. Nedic and A. Ozdaglar, "Distributed subgradient methods for multi-agent optimization" (2009), Assumption 2.

    Examples
    --------
    >>> import networkx, topologies
    >>> [group.tolist() for group in topologies.components(topologies.Static(networkx.Graph([(0, 3), (1, 2)])))]
    [[0, 3], [1, 2]]
    """
    wanted = "a schedule with union(), such as topologies.Static(graph)"
    union = _checks.offers("schedule", schedule, ("agents", "union"), wanted).union
    if getattr(schedule, "meets_all", False):  # the union would be a dense matrix
        return [np.arange(schedule.agents)]
    count, group = connected_components(union(), directed=True, connection="strong")
    groups = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group, minlength=count))[:-1])
    return sorted(groups, key=lambda group: group[0])


def known_components(schedule: ScheduleLike) -> list[np.ndarray]:
    """Return the components of a schedule with ``union()``; none of another."""
    return components(schedule) if hasattr(schedule, "union") else []


def parts(schedule: ScheduleLike, groups: Sequence[np.ndarray]) -> str:
    """Return the names of the first agents of some groups, for messages.

    Parameters
    ----------
    schedule : schedule
        Schedule whose graphs name the agents.
    groups : sequence of numpy arrays
        Agents of each group.

    Returns
    -------
    str
        Names of at most three agents of at most three groups.

    Examples
    --------
    >>> import networkx, topologies
    >>> from topologies.analysis import parts
    >>> schedule = topologies.Static(networkx.Graph([("ann", "bob"), ("cy", "di"), ("di", "ed"), ("ed", "flo"), ("flo", "cy")]))
    >>> parts(schedule, topologies.components(schedule))
    "'ann', 'bob'; 'cy', 'di', 'ed' and 1 more"
    """
    names = labels(schedule)
    shown = []
    for group in groups[:SHOWN]:
        more = len(group) - SHOWN
        shown.append(", ".join(repr(names[k]) for k in group[:SHOWN]) + (f" and {more} more" if more > 0 else ""))
    return "; ".join([*shown, *(["..."] if len(groups) > SHOWN else [])])


def joint_connectivity(schedule: ScheduleLike, rounds: int) -> int | None:
    """Return the smallest window B such that the edges of any B consecutive rounds connect all agents.

    The union of the graphs of rounds n, ..., n + B - 1 is (strongly) connected for all n >= 0 with n + B <= `rounds`. Agents
    agree over changing graphs if there is such a B and positive weights are bounded away from zero (Assumptions 2 and 3 of
    [1]_, for push-sum methods Assumption 1 of [2]_, for NEXT Assumption B of [3]_).

    Parameters
    ----------
    schedule : schedule
        Any schedule.
    rounds : int
        Number of first rounds to examine, at least 1.

    Returns
    -------
    int or None
        Window, or None if the union of all these rounds is not connected.

    References
    ----------
    .. [1] A. Nedic and A. Ozdaglar, "Distributed subgradient methods for multi-agent optimization" (2009).
    .. [2] A. Nedic and A. Olshevsky, "Distributed optimization over time-varying directed graphs" (2015).
    .. [3] P. Di Lorenzo and G. Scutari, "NEXT: in-network nonconvex optimization" (2016).

    Examples
    --------
    >>> import networkx, topologies
    >>> pairs = [networkx.Graph([(0, 1), (2, 3)]), networkx.Graph([(1, 2), (0, 3)])]
    >>> topologies.joint_connectivity(topologies.Periodic(pairs), 10)
    2
    """
    _checks.schedule(schedule)
    rounds = integer("rounds", rounds, 1, ROUNDS)
    # For every edge, one plus the last round with it: the union of rounds m, ..., n is the set of edges above m.
    last = sparse.csr_array((schedule.agents, schedule.agents))
    first = -1  # the last round m such that the union of rounds m, ..., n is connected; it never decreases
    window = None
    for n in range(rounds):
        last = last.maximum(used(schedule, n) * (n + 1.0))
        while first < n and _connected(last, first + 1):
            first += 1
        if first >= 0:
            # No window before the end of the first connected union is connected, so B is at least its length.
            window = max(n + 1 if window is None else window, n + 1 - first)
    return window


def crossing(schedule: ScheduleLike, round: int = 0) -> int:
    """Return the number of exchanges, from a given round on, after which every agent has information from every other.

    On a static graph this is the diameter.

    Parameters
    ----------
    schedule : schedule
        Any schedule.
    round : int
        Round of the first exchange, at least 0.

    Returns
    -------
    int
        Number of exchanges.

    Raises
    ------
    ValueError
        If 20 exchanges for each agent do not suffice; the message names components that are never connected.

    Examples
    --------
    >>> import topologies
    >>> from topologies.analysis import crossing
    >>> crossing(topologies.Static(topologies.ring(10)))
    5
    """
    agents = _checks.schedule(schedule).agents
    bits = -(-agents // 64) * 64  # a multiple of the 64 bits of a word
    everyone = np.packbits(np.arange(bits) < agents).view(np.uint64)
    reached = np.packbits(np.eye(agents, bits, dtype=bool), axis=1).view(np.uint64)
    static, matrix = is_static(schedule), None
    for count in range(_PATIENCE * agents + 10):
        if (reached == everyone).all():
            return count
        if matrix is None or not static:
            matrix = mixing_matrix(schedule, round + count)
            matrix = sparse.csr_array(abs(matrix) + sparse.eye_array(agents))
        before, reached = reached, np.bitwise_or.reduceat(reached[matrix.indices], matrix.indptr[:-1])
        if static and (reached == before).all():
            break
    groups = known_components(schedule)
    found = f"; its {len(groups)} components are the agents {parts(schedule, groups)}" if len(groups) > 1 else ""
    raise ValueError(f"the network must be connected: {count} exchanges do not reach all agents{found}")


def used(schedule: ScheduleLike, round: int) -> sparse.csr_array:
    """Return the pattern of the nonzeros off the diagonal of the mixing matrix of a round."""
    return off_diagonal(canonical(mixing_matrix(schedule, round)))


def _connected(last: sparse.csr_array, first: int) -> bool:
    kept = last.data > first
    starts = np.concatenate([[0], np.cumsum(kept)])[last.indptr]
    union = sparse.csr_array((last.data[kept], last.indices[kept], starts), shape=last.shape)
    return bool(connected_components(union, directed=True, connection="strong", return_labels=False) == 1)
