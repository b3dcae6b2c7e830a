"""What a schedule or a mixing matrix can do: whether all agents are reached, and how fast they agree."""

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from topologies import _checks
from topologies.matrices import square, sums_to_one
from topologies.schedules_base import labels
from topologies.weights import SHOWN

# Up to here all eigenvalues are found at once, in a second or so; beyond, Lanczos or Arnoldi finds the largest.
DENSE = 1000


def components(schedule):
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
    >>> [group.tolist() for group in components(topologies.Static(networkx.Graph([(0, 3), (1, 2)])))]
    [[0, 3], [1, 2]]
    """
    _checks.offers("schedule", schedule, ("agents", "union"), "a schedule with union(), such as topologies.Static(graph)")
    if getattr(schedule, "meets_all", False):  # the union would be a dense matrix
        return [np.arange(schedule.agents)]
    count, labels = connected_components(schedule.union(), directed=True, connection="strong")
    groups = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels, minlength=count))[:-1])
    return sorted(groups, key=lambda group: group[0])


def parts(schedule, groups):
    """Name groups of agents, for messages: the first of each, by their labels.

    Examples
    --------
    >>> import networkx, topologies
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


def spectral_gap(matrix):
    """Spectral gap of a mixing matrix W over A agents,

        1 - rho(W - 1 1' / A),        rho the largest modulus of an eigenvalue.

    One exchange of values with neighbours shrinks the disagreement of the agents, in the long run, by the factor one
    minus the gap, so agreement to a given accuracy takes a number of exchanges in proportion to 1 / gap, and the
    rates of decentralised methods carry the gap in the same way [1]_. A gap of 1 means agreement at once (the
    complete graph with Metropolis weights), 0 that some agents never agree (a disconnected graph, or a bipartite one
    without self-weights), and below 0 that disagreement grows.

    Parameters
    ----------
    matrix : scipy sparse matrix or numpy array, shape (A, A)
        Rows or columns sum to one; need not be symmetric. It is a property of one matrix: for a schedule whose
        graphs vary see `components`.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If `matrix` is not square, or neither its rows nor its columns sum to one within 1e-8.
    scipy.sparse.linalg.ArpackNoConvergence
        If `matrix` has more than 1000 rows, its eigenvalues are too close for an iteration to tell apart, and it is
        not both symmetric and nonnegative.

    References
    ----------
    .. [1] L. Xiao and S. Boyd, "Fast linear iterations for distributed averaging", Systems & Control Letters 53
       (2004), on the asymptotic convergence factor.

    Examples
    --------
    >>> import topologies
    >>> round(spectral_gap(topologies.metropolis(topologies.ring(10))), 4)
    0.1273
    """
    matrix = square(matrix)
    if not any(sums_to_one(matrix, axis) for axis in (0, 1)):
        raise ValueError("matrix must be a mixing matrix, with rows or columns that sum to one; neither do")
    symmetric = abs(matrix - matrix.T).max() <= 1e-14
    if matrix.shape[0] <= DENSE:
        deviation = matrix.toarray() - 1.0 / matrix.shape[0]
        values = np.linalg.eigvalsh(deviation) if symmetric else np.linalg.eigvals(deviation)
        return float(1.0 - abs(values).max())
    return float(1.0 - _radius(matrix, symmetric))


def _radius(matrix, symmetric):
    """Largest modulus of an eigenvalue of the matrix minus averaging, which stays sparse plus rank one."""
    agents = matrix.shape[0]
    # A fixed start makes the answer repeatable.
    start = np.random.default_rng(0).standard_normal(agents)

    def deviate(x):
        return matrix @ x - x.mean()

    if abs(deviate(start)).max() <= 1e-12:
        return 0.0  # W averages exactly; ARPACK cannot start on a zero matrix
    deviation = LinearOperator(matrix.shape, matvec=deviate, dtype=np.float64)
    if not symmetric:
        return abs(eigs(deviation, k=1, v0=start, return_eigenvectors=False)[0])
    try:
        return abs(eigsh(deviation, k=1, v0=start, maxiter=300, return_eigenvectors=False)[0])
    except ArpackNoConvergence:
        if matrix.min() < 0:
            raise  # what follows takes the spectrum to lie in [-1, 1]
        if connected_components(matrix, directed=False)[0] > 1:
            return 1.0
        # Eigenvalues crowd at the ends of the spectrum in graphs with narrow cuts (rings, grids); and the narrower
        # the cuts, the less a sparse factorisation fills in. So invert around both ends, just off the spectrum.
        end = 1.0 + 1e-9
        second = eigsh(matrix, k=2, sigma=end, v0=start, return_eigenvectors=False).min()
        # Most often a rough value shows that the lowest eigenvalue does not matter; a precise one can be slow.
        lowest = eigsh(matrix, k=1, sigma=-end, v0=start, tol=1e-2, return_eigenvectors=False)[0]
        if 1 + lowest < 2 * (1 - second):
            lowest = eigsh(matrix, k=1, sigma=-end, v0=start, return_eigenvectors=False)[0]
        return max(second, -lowest)
