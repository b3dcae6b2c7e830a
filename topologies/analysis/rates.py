"""How fast agents come to agree: by the spectrum of one matrix, and as measured over the rounds of a schedule."""

from __future__ import annotations

import math

import numpy as np

from topologies import _checks
from topologies._checks import ROUNDS, integer
from topologies.analysis.spectrum import spectral_gap
from topologies.matrices import MatrixLike, sums_to_one, worst_sum
from topologies.schedules.base import ScheduleLike

COLUMNS = 8
# A disagreement smaller than this part of the last round's is rounding noise: the agents agree.
NOISE = 1e-13


def mixing_time(matrix: MatrixLike, accuracy: float = 1e-2) -> float:
    """Rounds of mixing with one matrix W after which the disagreement is `accuracy` times what it was,

        the smallest k with  rho^k <= accuracy,        rho = rho(W - 1 1' / A) = 1 - spectral gap.

    For a symmetric W, |W^k - 1 1' / A|_2 = rho^k, so this is exactly the number of exchanges after which
    ``sqrt(mean_i |w_i - mean|^2)`` is at most `accuracy` times its value before, whatever the agents held; and there
    are starts that need them all [1]_. For other matrices rho is the contraction a round in the long run, so it is the number
    of rounds a further factor of `accuracy` takes once the start is forgotten.

    Parameters
    ----------
    matrix : scipy sparse matrix or numpy array, shape (A, A)
        Rows or columns sum to one.
    accuracy : float in (0, 1)

    Returns
    -------
    int, or ``math.inf``
        Infinite when the gap is not positive: some agents never agree.

    Raises
    ------
    ValueError
        If `accuracy` is out of range; and for whatever `topologies.spectral_gap` refuses.

    References
    ----------
    .. [1] L. Xiao and S. Boyd, "Fast linear iterations for distributed averaging", Systems & Control Letters 53
       (2004), on the convergence time of an iteration.

    Examples
    --------
    >>> import topologies
    >>> from topologies import mixing_time
    >>> mixing_time(topologies.metropolis(topologies.ring(10)))
    34
    """
    accuracy = _checks.real("accuracy", accuracy, "a number in (0, 1)", lambda number: 0 < number < 1)
    gap = spectral_gap(matrix)
    if gap <= 1e-12:
        return math.inf
    if gap >= 1 - NOISE:
        return 1
    # The small slack keeps quotients that are whole numbers, but for rounding, from being raised to the next.
    return max(1, math.ceil(math.log(accuracy) / math.log1p(-gap) - 1e-9))


def contraction(schedule: ScheduleLike, rounds: int, seed: int = 0) -> float:
    """Measured contraction of the disagreement in a round, a geometric mean over rounds.

    Random values x (A, 8) are mixed for `rounds` rounds; the first half of them is a warm-up in which the start is
    forgotten, and over the others the factors by which sqrt(sum_i |x_i - mean|^2) changes are averaged, so that

        disagreement after k rounds  ~  factor^k times that before.

    For one symmetric matrix it tends to the second largest modulus of an eigenvalue, 1 - `topologies.spectral_gap`;
    for a schedule it is the estimate of the second Lyapunov exponent of the product of its matrices [1]_. On a periodic
    schedule let half of `rounds` be a multiple of the period.

    When columns rather than rows sum to one the values are those of push-sum, z_i = x_i / phi_i with masses phi mixed along,
    phi_i = 1 at the start [2]_. Both are one computation: z+ = (C diag(phi) z) / (C phi) is a row-stochastic mixing of z,
    and phi stays 1 when the rows of C sum to one. Between rounds the mean is taken off and the rest is scaled to norm
    one, which changes no factor and keeps clear of rounding errors.

    Parameters
    ----------
    schedule : schedule
        Of matrices whose rows all sum to one, or whose columns all do.
    rounds : int of at least 2
    seed : int
        Of the random values.

    Returns
    -------
    float
        0 when the agents agree after finitely many rounds, 1 when some never agree.

    Raises
    ------
    ValueError
        If `rounds` or `seed` is out of range; if a matrix is neither row nor column stochastic, or not in the same way as
        those before; if the mass of an agent vanishes, which gives away what it has and gets nothing back.

    References
    ----------
    .. [1] A. Tahbaz-Salehi and A. Jadbabaie, "A necessary and sufficient condition for consensus over random networks", IEEE
       Transactions on Automatic Control 53 (2008).
    .. [2] D. Kempe, A. Dobra and J. Gehrke, "Gossip-based computation of aggregate information", FOCS (2003).

    Examples
    --------
    >>> import topologies
    >>> from topologies import contraction
    >>> ring = topologies.ring(10)
    >>> round(contraction(topologies.Static(ring), 200), 4), round(1 - topologies.spectral_gap(topologies.metropolis(ring)), 4)
    (0.8727, 0.8727)
    """
    _checks.schedule(schedule)
    rounds, seed = integer("rounds", rounds, 2, ROUNDS), integer("seed", seed, 0)
    values = _spread(np.random.default_rng(seed).standard_normal((schedule.agents, COLUMNS)))[0]
    mass = np.ones(schedule.agents)
    by_rows = by_columns = True
    warm_up, total = rounds // 2, 0.0
    for n in range(rounds):
        matrix = _checks.matrix(schedule, n)
        by_rows, by_columns = by_rows and sums_to_one(matrix, 1), by_columns and sums_to_one(matrix, 0)
        if not (by_rows or by_columns):
            (row, row_sum), (column, column_sum) = worst_sum(matrix, 1), worst_sum(matrix, 0)
            raise ValueError(
                f"the rows of all matrices must sum to one, or the columns of all; in round {n} row {row} sums to "
                f"{row_sum:.6g} and column {column} to {column_sum:.6g}"
            )
        mixed = np.ones(schedule.agents) if by_rows else matrix @ mass
        if mixed.min() < np.finfo(float).tiny:
            raise ValueError(
                f"by round {n} the mass of agent {mixed.argmin()} has vanished: it gives away what it has and gets nothing "
                "back; pass a schedule that is jointly strongly connected"
            )
        values, factor = _spread((matrix @ (mass[:, None] * values)) / mixed[:, None])
        mass = mixed
        if factor <= NOISE:
            return 0.0
        if n >= warm_up:
            total += math.log(factor)
    return math.exp(total / (rounds - warm_up))


def _spread(values):
    """The values about their mean, scaled to norm one, and that norm."""
    values = values - values.mean(axis=0)
    norm = float(np.linalg.norm(values))
    return (values / norm if norm else values), norm
