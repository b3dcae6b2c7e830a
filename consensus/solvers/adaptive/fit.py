"""Least squares: which combination of what was held is nearest to the average."""

import numpy as np


def own(probes: np.ndarray, goal: np.ndarray, cut: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Each agent's b (agents, K) for its ``probes`` (agents, K + 1, probes), and how far from the ``goal`` it leaves them.

    b minimises ``|goal - p_K - sum_k b_k (p_k - p_{k-1})|``. Singular values below ``cut`` of the largest count as zero.
    """
    steps, left = _steps(probes, goal)
    b = np.einsum("am,amk->ak", left, np.linalg.pinv(steps, rcond=_cut(probes.dtype) if cut is None else cut))
    left -= np.einsum("ak,akm->am", b, steps)
    return b, np.linalg.norm(left, axis=1)


def neighbours(probes: np.ndarray, next: np.ndarray) -> np.ndarray:
    """Each agent's products (agents, 2) of its ``probes`` (agents, count) with those after one more exchange, and of these."""
    x, y = probes.astype(np.float64, copy=False), next.astype(np.float64, copy=False)
    return np.stack([np.vecdot(x, y), np.vecdot(y, y)], axis=1)


def moments(products: np.ndarray) -> np.ndarray:
    """Each agent's share of the moments ``x_0 . T_m(Y) x_0``, m = 0 ... 2 K, over all probes x_0; (agents, 2 K + 1).

    The ``products`` (agents, 2 K + 1) are those of its probes x_k = T_k(Y) x_0, with a symmetric Y, in the order x_0 . x_0,
    x_0 . x_1, x_1 . x_1, ..., x_K . x_K: twice T_k T_k and T_k T_{k+1} are T_{2k} + T_0 and T_{2k+1} + T_1.
    """
    shares = 2 * products
    shares[:, 0::2] -= products[:, :1]
    shares[:, 1::2] -= products[:, 1:2]
    return shares


def polynomial(moments: np.ndarray, goal: float, eps: float) -> tuple[np.ndarray, float]:
    """The b (K,) of least squares over all agents from the sums of their ``moments`` (2 K + 1,), and the misfit.

    ``goal`` is the square of what all agents are to have, ``eps`` the relative rounding of what the moments are made of.
    """
    K = len(moments) // 2
    k = np.arange(K + 1)
    products = (moments[k[:, None] + k] + moments[abs(k[:, None] - k)]) / 2 - goal  # of all T_j x_0 - goal
    steps = np.diff(np.eye(K + 1), axis=0)
    b = -np.linalg.pinv(steps @ products @ steps.T, rcond=10 * eps, hermitian=True) @ (steps @ products[:, K])
    left = steps.T @ b
    left[K] += 1
    return b, float(np.sqrt(max(left @ products @ left, 0) / max(products[0, 0], np.finfo(float).tiny)))


def _steps(probes, goal):
    return np.diff(probes, axis=1), goal - probes[:, -1]


def _cut(dtype):
    """Singular values that count as zero: larger coefficients would carry rounding into the estimates."""
    return max(1.5e-6, 10 * np.sqrt(np.finfo(dtype).eps))
