"""A factor of a curvature from its products with few directions."""

import numpy as np


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
    shift = np.maximum(1e-7 * np.einsum("ann->a", core), noise).astype(core.dtype)
    shifted = core + shift[:, None, None] * np.eye(core.shape[1], dtype=core.dtype)
    shifted[~np.isfinite(core).all(axis=(1, 2))] = np.nan  # the run will stop with a DivergenceError
    V: np.ndarray = products @ _roots_of_inverses(shifted, core)
    return V


def _roots_of_inverses(shifted, core):
    """X with X X' the inverse of each ``shifted`` (agents, count, count); where that is not definite the pseudoinverse of the
    ``core``. Always row by row in memory: some BLAS round products with transposed matrices in another way."""
    try:
        return np.ascontiguousarray(np.linalg.inv(np.linalg.cholesky(shifted)).swapaxes(1, 2))
    except np.linalg.LinAlgError:
        if len(core) > 1:  # each takes the way that its own numbers ask for
            return np.concatenate([_roots_of_inverses(shifted[k : k + 1], core[k : k + 1]) for k in range(len(core))])
    values, vectors = np.linalg.eigh(np.nan_to_num(core))
    kept = values > np.maximum(1e-6 * values[:, -1:], 0)
    roots = vectors * np.where(kept, 1 / np.sqrt(np.where(kept, values, 1)), 0)[:, None]
    return np.where(np.isfinite(shifted).all(), roots, np.nan).astype(core.dtype)
