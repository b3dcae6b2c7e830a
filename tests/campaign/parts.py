"""The parts of the campaign, and how much of each is all of it."""

from typing import NamedTuple

from tests.campaign import damage, fuzz, kills, ranks, repeats


class Part(NamedTuple):
    """``search(count, seed)`` gives an Outcome; how many cases are the whole part, and how many a short one.

    Of callables, how many calls of each.
    """

    search: callable
    whole: int
    short: int


PARTS = {
    "calls": Part(fuzz.search, 50, 4),
    "array calls": Part(fuzz.search_arrays, 50, 4),
    "damaged files": Part(damage.search, 2300, 200),
    "flipped bits": Part(damage.search_bits, 200, 40),
    "kills and stops": Part(kills.search, 60, 3),
    "single ranks": Part(ranks.search, 16, 2),
    "runs in a row": Part(repeats.search, 100, 12),
}
