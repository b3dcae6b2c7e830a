"""The fastest mixing symmetric matrix of a graph, by semidefinite programming."""

import warnings

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from topologies import _checks
from topologies.pattern import GraphLike
from topologies.weights.base import balanced, undirected

# The solver holds a dense matrix over pairs of agents: beyond 100 agents it needs minutes and gigabytes.
AGENTS = 100
# Accuracy of the interior-point solver: of zero weights, and of bounds.
NEGLIGIBLE, SLACK = 1e-9, 1e-7
# Weights are multiples of this number, so that floating-point sums of them are exact in any order.
QUANTUM = 2.0**-48


def fastest(graph: GraphLike, *, nonnegative: bool = True, diagonal: float = 0.0) -> sparse.csr_array:
    """Return the fastest mixing symmetric doubly stochastic matrix on the edges of a graph.

    It solves

        minimise |W - 1 1' / A|_2   over W = W',  W 1 = 1,  w_ij = 0 off the edges,  w_ij >= 0,  w_ii >= diagonal,

    where the objective bounds the contraction of the disagreement in every round. By default W is the fastest mixing Markov
    chain of [2]_; with ``nonnegative=False`` it is the fastest distributed linear averaging of [1]_, never slower, for methods
    that need only a symmetric W and its spectrum (EXTRA, NIDS). With edge weights x and their Laplacian L(x), the semidefinite
    program is

        minimise s   subject to   L(x) + 1 1' / A >= (1 - s) I,   L(x) <= (1 + s) I        (in the order of matrices).

    The objective is optimal to about 1e-7. Rows and columns sum to exactly one, in any order of summation; unused edges are
    not stored. Diagonal entries can be zero, as at the centre of a star: where theory requires a positive diagonal, pass
    `diagonal` or use `topologies.lazy`. The components of a disconnected graph are optimised one by one.

    Parameters
    ----------
    graph : networkx.Graph, symmetric scipy sparse matrix or symmetric numpy array of shape (A, A)
        Undirected graph, read as by `topologies.adjacency`, with at most 100 agents in a connected component: 50 agents take
        about two seconds, 100 about a minute.
    nonnegative : bool
        Whether weights must be at least 0.
    diagonal : float in [0, 1)
        Lower bound of the diagonal, if `nonnegative`.

    Returns
    -------
    scipy.sparse.csr_array of float64, shape (A, A)
        Mixing matrix.

    Raises
    ------
    ValueError
        If a component has more than 100 agents, or `diagonal` is given without `nonnegative`.
    RuntimeError
        If the solver fails.

    References
    ----------
    .. [1] L. Xiao and S. Boyd, "Fast linear iterations for distributed averaging" (2004), the symmetric problem.
    .. [2] S. Boyd, P. Diaconis and L. Xiao, "Fastest mixing Markov chain on a graph", SIAM Review (2004).

    Examples
    --------
    >>> import networkx, topologies
    >>> topologies.fastest(networkx.path_graph(3)).toarray().round(4)
    array([[0.5, 0.5, 0. ],
           [0.5, 0. , 0.5],
           [0. , 0.5, 0.5]])
    >>> ring = topologies.ring(10)
    >>> [round(topologies.spectral_gap(rule(ring)), 3) for rule in (topologies.metropolis, topologies.fastest)]
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
            f"the semidefinite program of fastest allows at most {AGENTS} connected agents, got {sizes.max()}; "
            "use topologies.metropolis, or topologies.laplacian with a chosen epsilon"
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


def _optimal(agents: int, rows: np.ndarray, columns: np.ndarray, nonnegative: bool, diagonal: float) -> np.ndarray:
    """Return the weights of the edges {rows[k], columns[k]} of a connected graph, shape (edges,)."""
    import cvxpy as cp

    each = np.arange(rows.size)
    incidence = sparse.csr_array((np.ones(2 * each.size), (np.r_[rows, columns], np.tile(each, 2))), (agents, each.size))
    # L(x), row by row, is linear in x: an edge adds to two diagonal entries and is subtracted from two others.
    entries = np.r_[rows * agents + rows, columns * agents + columns, rows * agents + columns, columns * agents + rows]
    signs = np.repeat([1.0, 1.0, -1.0, -1.0], each.size)
    laplacians = sparse.csr_array((signs, (entries, np.tile(each, 4))), (agents * agents, each.size))

    x, s = cp.Variable(each.size), cp.Variable()
    laplacian = cp.reshape(laplacians @ x, (agents, agents), order="C")
    identity, average = np.eye(agents), np.full((agents, agents), 1.0 / agents)
    # The second bound holds for the average anyway, and is sparse without it, which is much faster.
    constraints = [laplacian + average >> (1 - s) * identity, laplacian << (1 + s) * identity]
    if nonnegative:
        constraints += [x >= 0, incidence @ x <= 1 - diagonal]
    program = cp.Problem(cp.Minimize(s), constraints)
    try:
        with warnings.catch_warnings():
            # The solver reports the optimum s = 0 of complete graphs as inaccurate.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    except cp.SolverError as error:
        raise RuntimeError(f"the semidefinite program over {agents} agents failed: {error}") from error
    if program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise RuntimeError(f"the semidefinite program over {agents} agents ended as {program.status}")
    weights = np.where(abs(x.value) < NEGLIGIBLE, 0.0, x.value)
    if not nonnegative:
        return np.round(weights / QUANTUM) * QUANTUM
    # Scaling moves the least diagonal entry onto its bound, if it is near; rounding down keeps it on the right side.
    fit = (1 - diagonal) / (incidence @ weights).max()
    if fit <= 1 + SLACK:
        weights *= fit
    return np.floor(weights / QUANTUM) * QUANTUM
