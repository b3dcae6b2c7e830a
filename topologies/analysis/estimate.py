"""An estimate of the spectral gap that the agents make themselves."""

from typing import NamedTuple

import numpy as np

from topologies import _checks
from topologies._checks import ROUNDS, integer
from topologies.schedules.base import ScheduleLike

_ROUNDING = 1e-24  # squares relative to the first


class GapEstimate(NamedTuple):
    """What each agent takes the spectral gap to be, ``gaps`` (agents,), and what that cost.

    The cost is the number of ``exchanges``, and of the numbers that each edge carried in each direction, ``floats``.
    """

    gaps: np.ndarray
    exchanges: int
    floats: int


def estimate_gap(schedule: ScheduleLike, exchanges: int = 100, columns: int = 8, seed: int = 0) -> GapEstimate:
    """Estimate the spectral gap of a static symmetric mixing matrix W by exchanges with neighbours alone.

    Every agent draws ``columns`` random numbers x_i. The differences d = W x - x have mean zero, so that in the end each
    exchange d <- W d shrinks them by rho = 1 - gap. In half of the exchanges the agents let d shrink, and each keeps the square
    of its own d after every one of them; in the other half they mix these squares, to average them over the network. Each
    agent then divides the last of its averages that is above rounding by the one before it: the root of the quotient is its
    rho. As a power iteration does, it errs on the side of a large gap.

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
    >>> from topologies import estimate_gap
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
    after = [np.square(d).sum(axis=1)]
    for _ in range(shrinking - 1):
        d = matrix @ d
        after.append(np.square(d).sum(axis=1))
    squares = np.stack(after, axis=1)
    for _ in range(exchanges - shrinking):
        squares = matrix @ squares
    clear = squares > _ROUNDING * squares[:, :1]  # below, what is left of d is its mean, which rounding leaves in
    last = np.maximum(clear.cumprod(axis=1).sum(axis=1) - 1, 1)[:, None]
    old, new = (np.take_along_axis(squares, place, axis=1)[:, 0] for place in (last - 1, last))
    rho = np.sqrt(np.divide(new, old, out=np.zeros_like(new), where=old > 0))
    floats = shrinking * columns + (exchanges - shrinking) * shrinking
    return GapEstimate(1 - np.minimum(rho, 1.0), exchanges, floats)
