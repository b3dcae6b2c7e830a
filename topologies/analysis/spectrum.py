"""Eigenvalues of mixing matrices."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs, eigsh

from topologies.matrices import TOLERANCE, MatrixLike, square, sums_to_one

DENSE = 1000  # agents up to which all eigenvalues are computed, in about a second


def spectral_gap(matrix: MatrixLike) -> float:
    """Return the spectral gap of a mixing matrix.

    For W over A agents the gap is

        1 - rho(W - 1 1' / A),        rho the largest modulus of an eigenvalue.

    In the limit, each exchange contracts the disagreement by 1 - gap [1]_. The gap is 1 if the agents agree at once (a complete
    graph with Metropolis weights), 0 if some never agree (a disconnected graph, or a bipartite one with a zero diagonal), and
    negative if the disagreement grows.

    Parameters
    ----------
    matrix : scipy sparse matrix or numpy array, shape (A, A)
        Mixing matrix, symmetric or not, whose rows or columns sum to one.

    Returns
    -------
    float
        Spectral gap.

    Raises
    ------
    ValueError
        If `matrix` is not square, or neither its rows nor its columns sum to one within 1e-8.
    scipy.sparse.linalg.ArpackNoConvergence
        If `matrix` has more than 1000 rows, is not both symmetric and nonnegative, and its eigenvalues are too close together.

    References
    ----------
    .. [1] L. Xiao and S. Boyd, "Fast linear iterations for distributed averaging" (2004), on the asymptotic convergence factor.

    Examples
    --------
    >>> import topologies
    >>> round(topologies.spectral_gap(topologies.metropolis(topologies.ring(10))), 4)
    0.1273
    """
    matrix = square(matrix)
    if not any(sums_to_one(matrix, axis) for axis in (0, 1)):
        raise ValueError("the rows or the columns of matrix must sum to one; neither do")
    symmetric = abs(matrix - matrix.T).max() <= 1e-14
    if matrix.shape[0] <= DENSE:
        deviation = matrix.toarray() - 1.0 / matrix.shape[0]
        values = np.linalg.eigvalsh(deviation) if symmetric else np.linalg.eigvals(deviation)
        return float(1.0 - abs(values).max())
    return float(1.0 - _radius(matrix, symmetric))


def _radius(matrix: sparse.csr_array, symmetric: bool) -> float:
    """Return the largest modulus of an eigenvalue of a matrix minus the average."""
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])

    def deviate(x: np.ndarray) -> np.ndarray:
        found: np.ndarray = matrix @ x - x.mean()
        return found

    if abs(deviate(start)).max() <= 1e-12:
        return 0.0  # W averages exactly; ARPACK cannot start on a zero matrix
    deviation = LinearOperator(matrix.shape, matvec=deviate, dtype=np.float64)
    if not symmetric:
        return float(abs(eigs(deviation, k=1, v0=start, return_eigenvectors=False)[0]))
    try:
        return float(abs(eigsh(deviation, k=1, v0=start, maxiter=300, return_eigenvectors=False)[0]))
    except ArpackNoConvergence:
        if matrix.min() < 0:
            raise  # the spectrum may exceed [-1, 1], which the rest assumes
        if connected_components(matrix, directed=False)[0] > 1:
            return 1.0
        # On rings and grids eigenvalues cluster at the ends of the spectrum, and sparse factorisations have little fill-in: so
        # invert around both ends, just outside the spectrum.
        end = 1.0 + 1e-9
        second = eigsh(matrix, k=2, sigma=end, v0=start, return_eigenvectors=False).min()
        # A rough value often shows that the lowest eigenvalue does not matter; a precise one can be slow.
        lowest = eigsh(matrix, k=1, sigma=-end, v0=start, tol=1e-2, return_eigenvectors=False)[0]
        if 1 + lowest < 2 * (1 - second):
            lowest = eigsh(matrix, k=1, sigma=-end, v0=start, return_eigenvectors=False)[0]
        return float(max(second, -lowest))


def lowest_eigenvalue(matrix: MatrixLike) -> float:
    """Return the lowest eigenvalue of a symmetric matrix, which bounds the steps of EXTRA, DGD and similar methods.

    Parameters
    ----------
    matrix : scipy sparse matrix or numpy array, shape (A, A)
        Symmetric matrix.

    Returns
    -------
    float
        Lowest eigenvalue; with more than 1000 rows, a lower bound by Gershgorin circles if the iteration does not converge.

    Examples
    --------
    >>> import topologies
    >>> round(topologies.lowest_eigenvalue(topologies.metropolis(topologies.ring(4))), 4)
    -0.3333
    """
    matrix = square(matrix)
    if not abs(matrix - matrix.T).max() <= TOLERANCE:  # false for NaN
        raise ValueError("matrix must be symmetric and finite")
    if matrix.shape[0] <= DENSE:
        return float(np.linalg.eigvalsh(matrix.toarray())[0])
    start = np.random.default_rng(0).standard_normal(matrix.shape[0])
    try:
        return float(eigsh(matrix, k=1, which="SA", v0=start, maxiter=300, return_eigenvectors=False)[0])
    except ArpackNoConvergence:
        diagonal = matrix.diagonal()
        return float((diagonal + abs(diagonal) - abs(matrix).sum(axis=1)).min())
