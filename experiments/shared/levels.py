"""Costs until the objective stays low: levels between start and lowest, and tuning by the exchanges to them."""

import functools
import math

import numpy as np

from experiments.shared.tables import last


def level_of(outcomes, part):
    """The objective where only ``part`` is left of the gap between the start and the lowest of all ``outcomes``."""
    lowest = min(np.nanmin(outcome.history["objective"]) for outcome in outcomes)
    return lowest + part * (outcomes[0].history["objective"][0] - lowest)


def exchanges_to(outcome, level, column="exchanges", quantity="objective"):
    """Exchanges (or another column) after which a quantity stays at or below ``level``; infinite if it never does."""
    above = np.flatnonzero(~(outcome.history[quantity] <= level))  # NaN is above
    after = above[-1] + 1 if len(above) else 0
    return math.inf if outcome.diverged or after == outcome.history.rows else float(outcome.history[column][after])


class Merits:
    """The exchanges to levels, as :func:`experiments.shared.tuning.tuned` asks for them; of ties the lowest objective.

    Outcomes are lists of runs, one for each repeat on which settings are tried: the worst of them counts. Of one solver nearly
    all rounds send and compute as much: bytes and gradients are exchanges times a constant. ``place(key)`` is what a key's runs
    share with those that they are compared with, a data set for instance; ``parts(place)`` returns ``{measure: part of the
    gap}``; ``counts(key)`` says whether a key's runs set the levels; ``column`` is counted instead of exchanges.
    """

    def __init__(self, place, parts, counts, column="exchanges"):
        self.place, self.parts, self.counts, self.column, self.known = place, parts, counts, column, {}

    def __call__(self, found, key, outcome):
        place = self.place(key)
        there = [tried for other, tried in found.items() if self.place(other) == place and self.counts(other)]
        at = place, sum(map(len, there))
        if at not in self.known:  # lower, perhaps, with every run
            repeats = list(zip(*(runs for tried in there for runs in tried.values()), strict=True))
            self.known[at] = {name: [level_of(runs, part) for runs in repeats] for name, part in self.parts(place).items()}
        end = last(outcome, "objective").high
        needed = functools.partial(exchanges_to, column=self.column)
        return {name: (max(map(needed, outcome, levels)), end) for name, levels in self.known[at].items()}

    def needed(self, every, repeats, seeds, column=None):
        """What every one of ``repeats`` needs to the level, by key and measure, in another ``column``, if one is given.

        ``repeats`` and ``every`` are those of :class:`experiments.shared.harness.Compared`; every run that counts sets levels.
        """
        counted = {}
        for (key, _, seed), outcome in every.items():
            if self.counts(key):
                counted.setdefault((self.place(key), seed), []).append(outcome)
        found = {}
        for which, runs in repeats.items():
            place = self.place(which)
            levels = [level_of(counted[place, seed], self.parts(place)[which[-1]]) for seed in seeds]
            found[which] = [exchanges_to(*pair, column or self.column) for pair in zip(runs, levels, strict=True)]
        return found
