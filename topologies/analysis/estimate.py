"""An estimate of the spectral gap that the agents make themselves."""

from typing import NamedTuple

import numpy as np

from topologies import _checks
from topologies._checks import ROUNDS, integer

_ROUNDING = 1e-24  # squares relative to the first


class GapEstimate(NamedTuple):
    """What each agent holds the spectral gap for (agents,), and what finding out took: exchanges, floats sent by an edge."""

    gaps: np.ndarray
    exchanges: int
    floats: int


def estimate_gap(schedule, exchanges=100, columns=8, seed=0):
    """Estimate the spectral gap of a static symmetric mixing matrix W by exchanges with neighbours alone.

    Every agent draws ``columns`` random numbers x_i. The differences d = W x - x have mean zero, so that d <- W d shrinks by
    rho = 1 - gap in the end. In half of the exchanges all agents let d shrink; in the other half they average the squares of
    its values by the same gossip, and each takes the root of the quotient of the last two that are still above rounding for
    rho. A power iteration, it errs on the side of a large gap.

    Parameters
    ----------
    schedule : schedule
        Round 0's matrix is used throughout.
    exchanges : int of at least 6
    columns : int
        More make the estimate steadier.
    seed : int

    Returns
    -------
    GapEstimate

    References
    ----------
    Kempe, McSherry, "A decentralized algorithm for spectral analysis", J. Comput. Syst. Sci. 74(1), 2008, for the idea.

    Examples
    --------
    >>> import topologies
    >>> ring = topologies.Static(topologies.ring(8))
    >>> exact = topologies.spectral_gap(ring.weights(0))
    >>> bool(abs(estimate_gap(ring).gaps - exact).max() < 1e-3)
    True
    """
    _checks.schedule(schedule)
    exchanges, columns = integer("exchanges", exchanges, 6, ROUNDS), integer("columns", columns, 1)
    seed = integer("seed", seed, 0)
    _checks.room(f"{columns} columns", schedule.agents * columns, each=8)
    matrix = _checks.matrix(schedule, 0)
    x = np.stack([np.random.default_rng([seed, agent]).standard_normal(columns) for agent in range(schedule.agents)])
    shrinking = exchanges // 2
    d = matrix @ x - x
    squares = [np.square(d).sum(axis=1)]
    for _ in range(shrinking - 1):
        d = matrix @ d
        squares.append(np.square(d).sum(axis=1))
    squares = np.stack(squares, axis=1)
    for _ in range(exchanges - shrinking):
        squares = matrix @ squares
    clear = squares > _ROUNDING * squares[:, :1]  # below, what is left of d is its mean, which rounding leaves in
    last = np.maximum(clear.cumprod(axis=1).sum(axis=1) - 1, 1)[:, None]
    old, new = (np.take_along_axis(squares, last - back, axis=1)[:, 0] for back in (1, 0))
    rho = np.sqrt(np.divide(new, old, out=np.zeros_like(new), where=old > 0))
    floats = shrinking * columns + (exchanges - shrinking) * shrinking
    return GapEstimate(1 - np.minimum(rho, 1.0), exchanges, floats)
