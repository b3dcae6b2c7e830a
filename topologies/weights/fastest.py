"""The symmetric mixing matrix of a graph that agrees fastest, by semidefinite programming."""

import warnings

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from topologies import _checks
from topologies.pattern import GraphLike
from topologies.weights.base import balanced, undirected

# More agents than this take the solver minutes and gigabytes: it holds a dense matrix over pairs of agents.
AGENTS = 100
# An interior-point solver's zeros: weights below this, and bounds met up to that.
NEGLIGIBLE, SLACK = 1e-9, 1e-7
# Weights are rounded to multiples of this, so that floating-point sums of them are exact in any order.
QUANTUM = 2.0**-48


def fastest(graph: GraphLike, *, nonnegative: bool = True, diagonal: float = 0.0) -> sparse.csr_array:
    """Fastest mixing symmetric doubly stochastic matrix on the edges of a graph,

        minimise |W - 1 1' / A|_2   over W = W',  W 1 = 1,  w_ij = 0 off the edges,  w_ij >= 0,  w_ii >= diagonal,

    the largest modulus of an eigenvalue of W beside the 1 of agreement, which bounds the contraction of the disagreement in
    every round. With nonnegative weights this is the fastest mixing Markov chain of [2]_, and the default, because NEXT,
    gradient tracking over changing graphs and everything that reads W as probabilities need them. With
    ``nonnegative=False`` it is the fastest distributed linear averaging of [1]_: never slower, sometimes faster, for
    methods that ask only for a symmetric W and its spectrum (EXTRA, NIDS). In terms of edge weights x and their Laplacian
    L(x) it is the semidefinite program

        minimise s   subject to   L(x) + 1 1' / A >= (1 - s) I,   L(x) <= (1 + s) I        (in the order of matrices).

    Symmetric, and rows and columns sum to exactly one, in any order of summation; entries of edges that the optimum does not
    use are not stored. The modulus is optimal to about 1e-7. Self-weights can come out zero, as at the centre of a star. On
    a static connected graph that does no harm, because the modulus is below 1 all the same; where theory asks for a positive
    diagonal, pass `diagonal` or wrap in `topologies.lazy`. On a disconnected graph each component is made fastest.

    Parameters
    ----------
    graph : networkx.Graph, symmetric scipy sparse matrix or symmetric numpy array of shape (A, A)
        Read as by `topologies.adjacency`. At most 100 agents in a connected component: 50 agents take some two
        seconds, 100 about a minute.
    nonnegative : bool
        Whether weights are at least 0.
    diagonal : float in [0, 1)
        Least self-weight, when `nonnegative`.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)

    Raises
    ------
    ValueError
        If a component has more than 100 agents; if `diagonal` is out of range, or given without `nonnegative`; for a
        directed graph; and for whatever `topologies.adjacency` refuses.
    RuntimeError
        If the solver fails.

    References
    ----------
    .. [1] L. Xiao and S. Boyd, "Fast linear iterations for distributed averaging", Systems & Control Letters 53
       (2004), the symmetric problem and its semidefinite program.
    .. [2] S. Boyd, P. Diaconis and L. Xiao, "Fastest mixing Markov chain on a graph", SIAM Review 46 (2004).

    Examples
    --------
    >>> import networkx, topologies
    >>> from topologies import fastest
    >>> fastest(networkx.path_graph(3)).toarray().round(4)
    array([[0.5, 0.5, 0. ],
           [0.5, 0. , 0.5],
           [0. , 0.5, 0.5]])
    >>> ring = topologies.ring(10)
    >>> [round(topologies.spectral_gap(rule(ring)), 3) for rule in (topologies.metropolis, fastest)]
    [0.127, 0.174]
    """
    edges, nonnegative = undirected(graph, "fastest mixing weights"), _checks.flag("nonnegative", nonnegative)
    diagonal = _checks.real("diagonal", diagonal, "a number in [0, 1)", lambda number: 0 <= number < 1)
    if diagonal and not nonnegative:
        raise ValueError(f"diagonal={diagonal!r} bounds self-weights, which nonnegative=False leaves free; pass one of them")
    count, labels = connected_components(edges, directed=False)
    sizes = np.bincount(labels, minlength=count)
    if sizes.max() > AGENTS:
        raise ValueError(
            f"fastest solves a semidefinite program, and for {sizes.max()} connected agents it is too large: at most {AGENTS}. "
            "Use topologies.metropolis, whose weights need no solver, or laplacian with a well-chosen epsilon"
        )
    rows, columns = sparse.triu(edges).tocoo().coords
    weights, place = np.zeros(rows.size), np.empty(labels.size, dtype=int)
    for component in np.flatnonzero(sizes > 1):
        members = labels == component
        place[members] = np.arange(sizes[component])
        inside = members[rows]
        weights[inside] = _optimal(sizes[component], place[rows[inside]], place[columns[inside]], nonnegative, diagonal)
    there, back = sparse.coo_array((weights, (rows, columns)), shape=edges.shape), (columns, rows)
    matrix = sparse.csr_array(there + sparse.coo_array((weights, back), shape=edges.shape))
    matrix.eliminate_zeros()
    return balanced(matrix)


def _optimal(agents, rows, columns, nonnegative, diagonal):
    """Weights of the edges {rows[k], columns[k]} of a connected graph, shape (edges,)."""
    import cvxpy as cp

    each = np.arange(rows.size)
    incidence = sparse.csr_array((np.ones(2 * each.size), (np.r_[rows, columns], np.tile(each, 2))), (agents, each.size))
    # L(x), row by row, is linear in x: an edge adds to its two diagonal entries and subtracts from the two others.
    entries = np.r_[rows * agents + rows, columns * agents + columns, rows * agents + columns, columns * agents + rows]
    signs = np.repeat([1.0, 1.0, -1.0, -1.0], each.size)
    laplacians = sparse.csr_array((signs, (entries, np.tile(each, 4))), (agents * agents, each.size))

    x, s = cp.Variable(each.size), cp.Variable()
    laplacian = cp.reshape(laplacians @ x, (agents, agents), order="C")
    identity, average = np.eye(agents), np.full((agents, agents), 1.0 / agents)
    # The second bound has no need of the average (1 + s is no eigenvalue on it), and without it stays sparse: much faster.
    constraints = [laplacian + average >> (1 - s) * identity, laplacian << (1 + s) * identity]
    if nonnegative:
        constraints += [x >= 0, incidence @ x <= 1 - diagonal]
    program = cp.Problem(cp.Minimize(s), constraints)
    try:
        with warnings.catch_warnings():
            # "Inaccurate" is how the solver reports an optimum of s = 0, on complete graphs.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    except cp.SolverError as error:
        raise RuntimeError(f"the semidefinite program over {agents} agents failed: {error}") from error
    if program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise RuntimeError(f"the semidefinite program over {agents} agents ended as {program.status}")
    weights = np.where(abs(x.value) < NEGLIGIBLE, 0.0, x.value)
    if not nonnegative:
        return np.round(weights / QUANTUM) * QUANTUM
    # The least self-weight comes out a little above or below its bound when it should be on it. Rounding goes down, so that
    # no row's sum is pushed past it again.
    fit = (1 - diagonal) / (incidence @ weights).max()
    if fit <= 1 + SLACK:
        weights *= fit
    return np.floor(weights / QUANTUM) * QUANTUM
