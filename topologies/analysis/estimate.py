"""Decentralised estimate of the spectral gap."""

from typing import NamedTuple

import numpy as np

from topologies import _checks
from topologies._checks import ROUNDS, integer
from topologies.schedules.protocols import ScheduleLike, mixing_matrix

_ROUNDING = 1e-24  # of squares, relative to the first


class GapEstimate(NamedTuple):
    """The estimates of the spectral gap and their cost.

    Attributes
    ----------
    gaps : numpy array, shape (agents,)
        Estimate of each agent.
    exchanges : int
        Number of exchanges.
    floats : int
        Numbers sent over each edge in each direction.

    Examples
    --------
    >>> import topologies
    >>> estimate = topologies.estimate_gap(topologies.Static(topologies.ring(8)), exchanges=60, columns=4)
    >>> estimate.gaps.shape, estimate.exchanges, estimate.floats
    ((8,), 60, 1020)
    """

    gaps: np.ndarray
    exchanges: int
    floats: int


def estimate_gap(schedule: ScheduleLike, exchanges: int = 100, columns: int = 8, seed: int = 0) -> GapEstimate:
    """Estimate the spectral gap of a static symmetric mixing matrix by exchanges with neighbours alone.

    The agents draw random numbers x. Differences d = W x - x have mean zero, so each exchange d <- W d shrinks them, in the
    limit, by rho = 1 - gap. In half of the exchanges the agents mix d and record its squares; in the other half they mix these
    squares. Each agent takes rho as the root of the quotient of its last two averages above rounding errors. Like any power
    iteration, this tends to overestimate the gap [1]_.

    Parameters
    ----------
    schedule : schedule
        Schedule, of which the matrix of round 0 is used.
    exchanges : int
        Number of exchanges, at least 6.
    columns : int
        Random numbers of each agent, at least 1; more reduce the variance.
    seed : int
        Seed, at least 0.

    Returns
    -------
    GapEstimate
        Estimates and their cost.

    References
    ----------
    .. [1] D. Kempe and F. McSherry, "A decentralized algorithm for spectral analysis" (2008).

    Examples
    --------
    >>> import topologies
    >>> ring = topologies.Static(topologies.ring(8))
    >>> exact = topologies.spectral_gap(ring.weights(0))
    >>> bool(abs(topologies.estimate_gap(ring).gaps - exact).max() < 1e-3)
    True
    """
    _checks.schedule(schedule)
    exchanges, columns = integer("exchanges", exchanges, 6, ROUNDS), integer("columns", columns, 1)
    seed = integer("seed", seed, 0)
    _checks.memory(f"{columns} columns", schedule.agents * columns, each=8)
    matrix = mixing_matrix(schedule, 0)
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
    clear = squares > _ROUNDING * squares[:, :1]  # below, rounding errors dominate
    last = np.maximum(clear.cumprod(axis=1).sum(axis=1) - 1, 1)[:, None]
    old, new = (np.take_along_axis(squares, place, axis=1)[:, 0] for place in (last - 1, last))
    rho = np.sqrt(np.divide(new, old, out=np.zeros_like(new), where=old > 0))
    floats = shrinking * columns + (exchanges - shrinking) * shrinking
    return GapEstimate(1 - np.minimum(rho, 1.0), exchanges, floats)
