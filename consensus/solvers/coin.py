"""A coin whose outcome all agents share."""

import functools

import numpy as np

_BLOCK = 1024  # rounds whose coins are drawn together: a generator takes longer to make than a round


def heads(seed: int, round: int, probability: float) -> bool:
    """Return whether the coin of ``round`` shows heads, as it does with ``probability``; the same at all agents.

    Examples
    --------
    >>> from consensus.solvers.coin import heads
    >>> sum(heads(0, round, 0.3) for round in range(1000))
    277
    """
    block, place = divmod(round, _BLOCK)
    return bool(_draws(seed, block)[place] < probability)


@functools.lru_cache(maxsize=8)
def _draws(seed: int, block: int) -> np.ndarray:
    """Return numbers in [0, 1), one for each round of the block."""
    return np.random.default_rng([seed, block]).random(_BLOCK)
