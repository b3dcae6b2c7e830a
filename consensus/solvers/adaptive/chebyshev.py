"""Exchanges on a static graph with symmetric weights, and what one polynomial makes of them."""

from typing import TYPE_CHECKING

import numpy as np

from consensus._rows import combined

if TYPE_CHECKING:
    from consensus.engines.network import Network


def exchange(network: "Network", round: int, history: list[np.ndarray], beside: int = 0) -> np.ndarray:
    """What one more exchange makes of ``history``, a list of arrays: C x_{k-1}; where W is symmetric, x_k = T_k(Y) x_0.

    Y is W with its eigenvalues stretched from [a, 1] to [-1, 1], T_k Chebyshev's polynomial. These span what the powers of W
    do, and keep sums and agreements as those do, but do not come to look alike: combinations of many keep their digits.

    References
    ----------
    Montijano, Montijano, Sagues, "Chebyshev polynomials in consensus applications", Signal Processing 93(3), 2013.
    """
    (x,) = network.mix(round, history[-1], beside=beside)
    a = network.least_eigenvalue
    if a is None:
        return x
    stretch, shift = 2 / float(1 - a), float((1 + a) / (1 - a))
    if len(history) == 1:
        return combined((stretch, -shift), x, history[0], over=x)
    return combined((2 * stretch, -2 * shift, -1), x, history[-1], history[-2], over=x)


def polynomial(network: "Network", first: int, b: np.ndarray, data: np.ndarray) -> np.ndarray:
    """``x_K + sum_k b_k (x_k - x_{k-1})`` of ``data`` x_0 (agents, columns), with b (agents, K): it needs no history.

    The schedule's round of the first exchange is ``first``.
    """
    history, total = [data], np.zeros_like(data)
    for k in range(b.shape[1]):
        history = [*history[-1:], exchange(network, first + k, history[-2:])]
        now, share = history[1], float(b[0, k])  # the same for all
        total = combined((share, -share, 1), now, history[0], total, over=total)
    total += history[-1]
    return total
