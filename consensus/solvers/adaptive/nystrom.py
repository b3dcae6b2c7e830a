"""A factor of a curvature from its products with few directions."""

import numpy as np
from scipy.linalg import solve_triangular


def factor(basis: np.ndarray, products: np.ndarray, noise: float = 0.0) -> np.ndarray:
    """V (agents, P, count) with V V' the Nystrom approximation of a positive semidefinite H, from H Omega.

        H ~ (H Omega) (Omega' H Omega + nu I)^-1 (Omega' H) = V V',      nu = max(1e-7 trace(Omega' H Omega), noise)

    It is below H, and H itself (up to nu) where Omega spans everything. Where estimates leave Omega' H Omega indefinite, its
    eigenvalues below 1e-6 of the largest are dropped, and the directions that belong to them.

    Parameters
    ----------
    basis : ndarray (P, count), or (agents, P, count)
        Omega.
    products : ndarray (agents, P, count)
        H Omega.
    noise : float
        How far Omega' H Omega may be from what it should be, as 2-norm.

    References
    ----------
    Halko, Martinsson, Tropp, "Finding structure with randomness", SIAM Review 53(2), 2011, section 5.5; Frangella, Tropp,
    Udell, "Randomized Nystrom preconditioning", SIAM J. Matrix Anal. Appl. 44(2), 2023, Algorithm 2.1, for the shift.
    """
    core = basis.swapaxes(-1, -2) @ products
    core = (core + core.swapaxes(1, 2)) / 2
    shift = np.maximum(1e-7 * np.einsum("ann->a", core), noise)
    V = np.empty_like(products)
    for agent in range(len(core)):  # each takes the way that its own numbers ask for
        V[agent] = products[agent] @ _root_of_inverse(core[agent], shift[agent])
    return V


def _root_of_inverse(core, shift):
    """X with X X' the inverse of ``core + shift I``, or its pseudoinverse if that is not definite."""
    if not np.isfinite(core).all():
        return np.full_like(core, np.nan)  # the run will stop with a DivergenceError
    try:
        lower = np.linalg.cholesky(core + shift * np.eye(len(core), dtype=core.dtype))
        return solve_triangular(lower, np.eye(len(core), dtype=core.dtype), lower=True, trans=0, check_finite=False).T
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(core)
        kept = values > max(1e-6 * values[-1], 0)
        return vectors * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1)), 0)
