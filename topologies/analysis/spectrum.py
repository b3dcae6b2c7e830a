"""The spectral gap of a mixing matrix."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from topologies.matrices import TOLERANCE, MatrixLike, square, sums_to_one

# Up to here all eigenvalues are found at once, in a second or so; beyond, Lanczos or Arnoldi finds the largest.
DENSE = 1000


def spectral_gap(matrix: MatrixLike) -> float:
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
    >>> from topologies import spectral_gap
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


def lowest_eigenvalue(matrix: MatrixLike) -> float:
    """The lowest eigenvalue of a symmetric matrix, by which steps of EXTRA, DGD and their kin are bounded.

    Parameters
    ----------
    matrix : scipy sparse matrix or numpy array, shape (A, A)

    Returns
    -------
    float
        With more than 1000 rows it may be a lower bound, by Gershgorin's circles, where an iteration does not settle.

    Raises
    ------
    ValueError
        If `matrix` is not square, or not symmetric within 1e-8.

    Examples
    --------
    >>> import topologies
    >>> from topologies import lowest_eigenvalue
    >>> round(lowest_eigenvalue(topologies.metropolis(topologies.ring(4))), 4)
    -0.3333
    """
    matrix = square(matrix)
    if not abs(matrix - matrix.T).max() <= TOLERANCE:  # false for NaN
        raise ValueError("matrix must be symmetric, of finite numbers")
    if matrix.shape[0] <= DENSE:
        return float(np.linalg.eigvalsh(matrix.toarray())[0])
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    try:
        return float(eigsh(matrix, k=1, which="SA", v0=start, maxiter=300, return_eigenvectors=False)[0])
    except ArpackNoConvergence:
        diagonal = matrix.diagonal()
        return float((diagonal + abs(diagonal) - abs(matrix).sum(axis=1)).min())
