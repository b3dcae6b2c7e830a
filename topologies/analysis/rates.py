"""Speed of agreement: by the spectrum of a matrix, and measured over the rounds of a schedule."""

from __future__ import annotations

import math

import numpy as np

from topologies import _checks
from topologies._checks import ROUNDS, integer
from topologies.analysis.spectrum import spectral_gap
from topologies.matrices import MatrixLike, sums_to_one, worst_sum
from topologies.schedules.protocols import ScheduleLike, mixing_matrix

COLUMNS = 8
NOISE = 1e-13  # relative disagreement that is a rounding error


def mixing_time(matrix: MatrixLike, accuracy: float = 1e-2) -> float:
    """Return the number of exchanges after which the disagreement is below a fraction of its initial value.

    For a mixing matrix W it is the smallest k with

        rho^k <= accuracy,        rho = rho(W - 1 1' / A) = 1 - spectral gap.

    For a symmetric W, ``|W^k - 1 1' / A|_2 = rho^k`` [1]_; for other matrices rho is the asymptotic contraction.

    Parameters
    ----------
    matrix : scipy sparse matrix or numpy array, shape (A, A)
        Mixing matrix, whose rows or columns sum to one.
    accuracy : float in (0, 1)
        Final disagreement divided by the initial one.

    Returns
    -------
    int or ``math.inf``
        Number of exchanges; infinite if the spectral gap is not positive, so that some agents never agree.

    References
    ----------
    .. [1] L. Xiao and S. Boyd, "Fast linear iterations for distributed averaging" (2004), on convergence times.

    Examples
    --------
    >>> import topologies
    >>> topologies.mixing_time(topologies.metropolis(topologies.ring(10)))
    34
    """
    accuracy = _checks.real("accuracy", accuracy, "a number in (0, 1)", lambda number: 0 < number < 1)
    gap = spectral_gap(matrix)
    if gap <= 1e-12:
        return math.inf
    if gap >= 1 - NOISE:
        return 1
    # The slack keeps rounding errors from raising whole numbers to the next.
    return max(1, math.ceil(math.log(accuracy) / math.log1p(-gap) - 1e-9))


def contraction(schedule: ScheduleLike, rounds: int, seed: int = 0) -> float:
    """Return the measured contraction of the disagreement per round, a geometric mean over rounds.

    Random values x (A, 8) are mixed. After a warm-up of half of the rounds, the mean factor of ``sqrt(sum_i |x_i - mean|^2)``
    is measured, so that

        disagreement after k rounds  ~  factor^k times the initial disagreement.

    For a static symmetric matrix it converges to 1 - `topologies.spectral_gap`; otherwise it estimates the second Lyapunov
    exponent of the product of the matrices [1]_. Matrices whose columns alone sum to one mix z_i = x_i / phi_i as push-sum
    does, with masses phi that start at 1 [2]_.

    Parameters
    ----------
    schedule : schedule
        Schedule of matrices that are all row stochastic or all column stochastic.
    rounds : int
        Number of rounds, at least 2; twice a multiple of the period of a periodic schedule.
    seed : int
        Seed of the random values, at least 0.

    Returns
    -------
    float
        Contraction; 0 if the agents agree after finitely many rounds, 1 if some never agree.

    Raises
    ------
    ValueError
        If matrices are neither all row stochastic nor all column stochastic, or the mass of an agent that only sends vanishes.

    References
    ----------
    .. [1] A. Tahbaz-Salehi and A. Jadbabaie, "A necessary and sufficient condition for consensus over random networks" (2008).
    .. [2] D. Kempe, A. Dobra and J. Gehrke, "Gossip-based computation of aggregate information", FOCS (2003).

    Examples
    --------
    >>> import topologies
    >>> ring = topologies.ring(10)
    >>> round(topologies.contraction(topologies.Static(ring), 200), 4)
    0.8727
    >>> round(1 - topologies.spectral_gap(topologies.metropolis(ring)), 4)
    0.8727
    """
    _checks.schedule(schedule)
    rounds, seed = integer("rounds", rounds, 2, ROUNDS), integer("seed", seed, 0)
    values = _spread(np.random.default_rng(seed).standard_normal((schedule.agents, COLUMNS)))[0]
    mass = np.ones(schedule.agents)
    by_rows = by_columns = True
    warm_up, total = rounds // 2, 0.0
    for n in range(rounds):
        matrix = mixing_matrix(schedule, n)
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
                f"by round {n} the mass of agent {mixed.argmin()} has vanished, because it sends and does not receive; "
                "pass a schedule that is jointly strongly connected"
            )
        values, factor = _spread((matrix @ (mass[:, None] * values)) / mixed[:, None])
        mass = mixed
        if factor <= NOISE:
            return 0.0
        if n >= warm_up:
            total += math.log(factor)
    return math.exp(total / (rounds - warm_up))


def _spread(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the deviations from the mean, scaled to norm one, and their norm."""
    values = values - values.mean(axis=0)
    norm = float(np.linalg.norm(values))
    return (values / norm if norm else values), norm
