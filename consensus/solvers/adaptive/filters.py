"""Weights of what an agent held after each exchange of a round, which suppress disagreement and rounding."""

import numpy as np

PROBES = 64  # at most: among more agents they are drawn
LONGEST = 64  # exchanges of a round, at most
_ROUNDING = {"points": 0.01, "products": 0.1}  # of one message, in units of what the agents disagree by


def draw(agents: int) -> np.ndarray:
    """Return probes (A, probes), which all agents know: unit vectors for up to 64 agents, random signs for more."""
    if agents <= PROBES:
        return np.eye(agents)
    signs: np.ndarray = np.random.default_rng(agents).choice([-1.0, 1.0], (agents, PROBES)) / np.sqrt(PROBES)
    return signs


def weights(probes: np.ndarray, goal: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return weights c (agents, K + 1), which sum to one, of what an agent held after 0 .. K exchanges; and their misfit.

    With a doubly stochastic W an agent holds ``z_k = W z_{k-1} + (I - W) e_k``, e_k what rounding loses of the k-th message.
    Its probes p_k, row i of W^k times all agents' probes, say what ``sum_k c_k z_k`` makes of the agents' data, and of the e_k:

        c = argmin |p^ - sum_k c_k p_k|^2 + s^2 sum_l |sum_{k > l} c_k (p_{k-1-l} - p_{k-l})|^2 ,

    p^ the mean of all probes, s the rounding. The misfit is the root of the minimum over ``|p^ - p_0|``.

    ``probes`` are (agents, K + 1, probes), and ``goal`` is p^; of "points" and "products", the latter are rounded in larger
    units.

    References
    ----------
    Sandryhaila, Kar, Moura, "Finite-time distributed consensus through graph filters", ICASSP 2014, for filters without noise.
    """
    p = probes.astype(np.float64)
    K = p.shape[1] - 1
    steps = p[:, :-1] - p[:, 1:]
    products = steps @ steps.swapaxes(1, 2)
    noise = np.zeros((len(p), K + 1, K + 1), like=p)
    for k in range(1, K + 1):  # sums along diagonals
        noise[:, k, 1:] = noise[:, k - 1, :-1] + products[:, k - 1]
    residual = p - goal
    objective = residual @ residual.swapaxes(1, 2) + _ROUNDING[what] ** 2 * noise
    start = np.maximum(objective[:, 0, 0], np.finfo(float).tiny)
    D = np.diff(np.eye(K + 1), axis=0)  # weights that sum to one are e_K + b D
    inner = D @ objective @ D.T + 1e-12 * start[:, None, None] * np.eye(K)
    b = -np.linalg.solve(inner, (D @ objective[:, :, K, None]))[:, :, 0]
    c = b @ D
    c[:, K] += 1
    least = np.einsum("ak,akl,al->a", c, objective, c)
    return c, np.sqrt(np.maximum(least, 0) / start)
