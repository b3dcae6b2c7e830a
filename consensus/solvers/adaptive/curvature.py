"""The network's curvature from products with few directions."""

import functools

import numpy as np
from scipy.linalg import solve_triangular

from consensus._parallel import for_chunks
from consensus.local.operators import rooted_rows, times_root, times_root_transposed

_FORMED = 1 << 22  # numbers in a Jacobian that is worth forming


@functools.lru_cache(maxsize=2)
def directions(parameters, count, seed, dtype):
    """Orthonormal random directions (P, count), the same for all agents: they draw them from a common ``seed``."""
    draw = np.random.default_rng(seed).standard_normal((parameters, count))
    basis = np.linalg.qr(draw)[0].astype(dtype)
    basis.flags.writeable = False  # it is kept, for whoever asks next
    return basis


def gauss_newton_products(problem, w, basis):
    """J_i' S_i J_i Omega, shape (agents, P, count), of every agent's own cost at w (agents, P).

    S_i is the curvature of the loss, weights included; ``basis`` Omega (P, count).
    """
    shards, model = problem.shards, problem.model
    samples, count = shards.features.shape[1], basis.shape[1]
    numbers = samples * model.outputs * problem.parameters
    formed = hasattr(model, "jacobian") and numbers <= _FORMED
    products = np.empty((problem.agents, problem.parameters, count), problem.dtype)

    def chunk(rows):
        outputs, linearization = problem.linearize(w, rows)
        root = problem.loss.curvature_root(outputs, shards.targets[rows])
        scale = np.sqrt(problem.weights[rows])
        root = root * scale.reshape(*scale.shape, *(1,) * (root.ndim - 2))
        if formed:
            R = rooted_rows(root, linearization.jacobian())
            np.matmul(R.swapaxes(1, 2), R @ basis, out=products[rows])
            return
        for k in range(count):
            direction = np.broadcast_to(basis[:, k], (len(outputs), problem.parameters))
            image = times_root(root, times_root_transposed(root, linearization.jvp(direction)))
            products[rows, :, k] = linearization.vjp(image)

    widths = sum(getattr(model, "widths", (model.outputs,)))
    bytes_per_agent = (2 * numbers if formed else 3 * samples * widths) * problem.dtype.itemsize
    for_chunks(chunk, problem.agents, bytes_per_agent, 2 * numbers * count)
    return products


def factor(basis, products):
    """V (agents, P, count) with V V' the Nystrom approximation of a positive semidefinite H, from H Omega.

        H ~ (H Omega) (Omega' H Omega + nu I)^-1 (Omega' H) = V V',      nu = 1e-7 trace(Omega' H Omega)

    It is below H, and H itself (up to nu) where Omega spans everything. Where estimates leave Omega' H Omega indefinite, its
    eigenvalues below 1e-6 of the largest are dropped, and the directions that belong to them.

    Parameters
    ----------
    basis : ndarray (P, count), or (agents, P, count)
        Omega.
    products : ndarray (agents, P, count)
        H Omega.

    References
    ----------
    Halko, Martinsson, Tropp, "Finding structure with randomness", SIAM Review 53(2), 2011, section 5.5; Frangella, Tropp,
    Udell, "Randomized Nystrom preconditioning", SIAM J. Matrix Anal. Appl. 44(2), 2023, Algorithm 2.1, for the shift.
    """
    core = basis.swapaxes(-1, -2) @ products
    core = (core + core.swapaxes(1, 2)) / 2
    shift = 1e-7 * np.einsum("ann->a", core)
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
