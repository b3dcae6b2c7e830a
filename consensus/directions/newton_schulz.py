"""Newton and Schulz's iteration for the orthogonal factor of matrices."""

import numpy as np


def orthogonalized(b: np.ndarray, coefficients: tuple[float, float, float], steps: int, eps: float) -> np.ndarray:
    """Return approximations of ``U V'`` for matrices ``B = U S V'``, as :class:`consensus.directions.Muon` describes them.

    Parameters
    ----------
    b : ndarray (agents, m, k)
        The matrices.
    coefficients : (float, float, float)
        a, b and c of a step.
    steps : int
        Number of steps.
    eps : float
        Least number by which a matrix is divided.

    Returns
    -------
    ndarray (agents, m, k)
        The factors, a new array.
    """
    agents, m, k = b.shape
    norms = np.linalg.norm(b.reshape(agents, m * k), axis=1)
    x = np.ascontiguousarray(b.swapaxes(1, 2) if m > k else b) / np.maximum(norms, eps)[:, None, None]
    one, cube, fifth = coefficients
    for _ in range(steps):
        gram = x @ x.swapaxes(1, 2)
        x = one * x + (cube * gram + fifth * (gram @ gram)) @ x
    return np.asarray(x.swapaxes(1, 2) if m > k else x)
