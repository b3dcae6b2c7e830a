"""Least squares: which combination of what was held is nearest to the average."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from consensus.engines.network import Network


def own(probes: np.ndarray, goal: np.ndarray, cut: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Each agent's b (agents, K) for its ``probes`` (agents, K + 1, probes), and its misfit relative to that of its own probe.

    b minimises ``|goal - p_K - sum_k b_k (p_k - p_{k-1})|``. Singular values below ``cut`` of the largest count as zero.
    """
    steps, left = _steps(probes, goal)
    b = np.einsum("am,amk->ak", left, np.linalg.pinv(steps, rcond=_cut(probes.dtype) if cut is None else cut))
    left -= np.einsum("ak,akm->am", b, steps)
    scale = np.linalg.norm(goal - probes[:, 0], axis=1)
    return b, np.linalg.norm(left, axis=1) / np.where(scale > 0, scale, 1)  # a network of one agent has nothing to fit


def equations(probes: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Each agent's share of the least squares for one b, made triangular: as few equations as b has entries, their right-hand
    sides last; (agents, K, K + 1)."""
    steps, left = _steps(probes, goal)
    K = steps.shape[1]
    whole = np.zeros((len(steps), max(K, steps.shape[2]), K + 1), probes.dtype)
    whole[:, : steps.shape[2], :K], whole[:, : steps.shape[2], K] = steps.swapaxes(1, 2), left
    upper: np.ndarray = np.linalg.qr(whole, mode="r")  # type: ignore[assignment]  # NumPy types its other modes alone
    return np.triu(upper[:, :K])


def common(network: "Network", first: int, equations: np.ndarray) -> np.ndarray:
    """The b (agents, K) of least squares over all agents, to whom their ``equations`` come with the K exchanges from ``first``.

    All rows are the same.
    """
    agents, K, _ = equations.shape
    upper = np.triu_indices(K, 0, K + 1)
    rows = network.flood(first, K, equations[:, *upper])
    whole = np.zeros((network.agents, K, K + 1), rows.dtype)
    whole[:, *upper] = rows
    whole = whole.reshape(-1, K + 1)
    return np.tile(np.linalg.pinv(whole[:, :K], rcond=_cut(rows.dtype)) @ whole[:, K], (agents, 1))


def _steps(probes, goal):
    return np.diff(probes, axis=1), goal - probes[:, -1]


def _cut(dtype):
    """Singular values that count as zero: larger coefficients would carry rounding into the estimates."""
    return max(1.5e-6, 10 * np.sqrt(np.finfo(dtype).eps))
