"""Normal numbers from random words: by the inverse distribution function, and on the integers, exactly."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.special import ndtri

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64, UInt64

Words: TypeAlias = "Callable[[int], UInt64[np.ndarray, ' count']]"  # so many words, uniform and new in every call

MOST = 1 << 24  # of the standard deviation on the integers, whose squares then fit into words


def of_the_system(count: int) -> UInt64[np.ndarray, " count"]:
    """Return words of the operating system's cryptographic generator, which are nowhere else."""
    return np.frombuffer(os.urandom(8 * count), np.uint64)


def normal(words: UInt64[np.ndarray, " count"]) -> Float[np.ndarray, " count"]:
    """Return a standard normal number in float64 for each of the words: a sign, and 63 bits of a probability.

    These are rounded, and none is beyond 9.2: see :func:`discrete_normal` for what is exact.
    """
    tail: Float[np.ndarray, " count"] = ndtri(
        ((words >> 1).astype(float) + 0.5) * 2.0**-64
    )  # of probabilities up to a half, whose small ones are exact
    return np.where(words & 1, tail, -tail)


def discrete_normal(words: Words, size: int, deviation: int) -> Int64[np.ndarray, " size"]:
    """Return integers k with probabilities in proportion to ``exp(-k^2 / (2 deviation^2))``, exactly, by integers alone.

    From a discrete Laplace law of the scale s, the ``deviation``, k is kept with probability ``exp(-(|k| - s)^2 / (2 s^2))``.
    How many words it takes depends on what is drawn.

    Parameters
    ----------
    words : callable
        The source of randomness.
    size : int
        How many.
    deviation : int
        From 1 to 2^24.

    Returns
    -------
    ndarray of int64 (size,)
        The integers.

    References
    ----------
    Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Algorithms 1 to 3.
    """
    found = np.empty(size, np.int64)
    missing, s = np.arange(size), np.uint64(deviation)
    while len(missing):
        drawn, there = _laplace(words, len(missing), s)
        far = np.abs(drawn).astype(np.uint64)
        apart = np.where(far > s, far - s, s - far)
        kept = there & _exponential(words, apart * apart, np.full(len(drawn), 2 * s * s))
        found[missing[kept]] = drawn[kept]
        missing = missing[~kept]
    return found


def _laplace(words: Words, count: int, scale: np.uint64) -> tuple[Int64[np.ndarray, " count"], Bool[np.ndarray, " count"]]:
    """Return candidates for a law in proportion to ``exp(-|k| / scale)``, and which of them are drawn from it."""
    scales = np.full(count, scale)
    rest = _below(words, scales)
    there = _exponential(words, rest, scales)
    whole, ones = np.zeros(count, np.uint64), np.ones(count, np.uint64)
    going = np.flatnonzero(there)
    while len(going):
        going = going[_exponential(words, ones[going], ones[going])]
        whole[going] += ones[going]
    drawn = (rest + scale * whole).astype(np.int64)
    negative = words(count) & 1 == 1
    return np.where(negative, -drawn, drawn), there & ~(negative & (drawn == 0))


def _exponential(
    words: Words, above: UInt64[np.ndarray, " count"], below: UInt64[np.ndarray, " count"]
) -> Bool[np.ndarray, " count"]:
    """Return whether each of some independent events of the probabilities ``exp(-above / below)`` occurs."""
    whole, rest = np.divmod(above, below)
    occurs = np.ones(len(above), bool)
    ones, going = np.ones(len(above), np.uint64), np.flatnonzero(whole)
    while len(going):
        occurs[going] = _within_one(words, ones[going], ones[going])
        whole[going] -= ones[going]
        going = going[occurs[going] & (whole[going] > 0)]
    going = np.flatnonzero(occurs)
    occurs[going] = _within_one(words, rest[going], below[going])
    return occurs


def _within_one(
    words: Words, above: UInt64[np.ndarray, " count"], below: UInt64[np.ndarray, " count"]
) -> Bool[np.ndarray, " count"]:
    """Return the events of :func:`_exponential` for ``above <= below``: the first k to fail, of events of ``x / k``, is odd."""
    turn, going = np.ones(len(above), np.uint64), np.arange(len(above))
    while len(going):
        going = going[_below(words, below[going] * turn[going]) < above[going]]
        turn[going] += np.uint64(1)
    odd: Bool[np.ndarray, " count"] = turn & 1 == 1
    return odd


def _below(words: Words, bounds: UInt64[np.ndarray, " count"]) -> UInt64[np.ndarray, " count"]:
    """Return a uniform integer below each bound: words beyond the largest multiple of it are drawn again."""
    found = words(len(bounds)).copy()
    most = np.uint64(2**64 - 1) - (np.uint64(2**64 - 1) % bounds + np.uint64(1)) % bounds
    while (again := np.flatnonzero(found > most)).size:
        found[again] = words(len(again))
    rest: UInt64[np.ndarray, " count"] = found % bounds
    return rest
