"""Try hard to break the package: python -m tests.campaign [--short] [--seed N] [part ...]."""

import argparse
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.campaign import combinations, damage, fuzz, kills, ranks, repeats
from tests.campaign.outcome import Outcome


class Part(NamedTuple):
    """``search(count, seed)``; how many cases are the whole part, and a short one: calls of each callable for the first two."""

    search: Callable[[int, int], Outcome]
    whole: int
    short: int


PARTS = {
    "calls": Part(fuzz.search, 50, 2),
    "array calls": Part(fuzz.search_arrays, 50, 2),
    "damaged files": Part(damage.search, 2300, 100),
    "flipped bits": Part(damage.search_bits, 200, 20),
    "kills and stops": Part(kills.search, 60, 3),
    "combinations": Part(combinations.search, 10_000, 8),
    "single ranks": Part(ranks.search, 16, 2),
    "runs in a row": Part(repeats.search, 100, 12),
}
LINE = "{:<16} {:>8} {:>8} {:>9}  {}"


def main(arguments=None):
    """Run the parts, print what they found and a table; the number of findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__.split(":")[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"which, of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--short", action="store_true", help="a few cases of each")
    parser.add_argument("--seed", type=int, default=0, help="of all draws (default 0)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    rows, total = [LINE.format("part", "cases", "seconds", "findings", "").rstrip()], 0
    for name in options.parts or PARTS:
        part, begin = PARTS[name], time.monotonic()
        outcome = part.search(part.short if options.short else part.whole, options.seed)
        seconds, found = f"{time.monotonic() - begin:.0f}", len(outcome.findings)
        rows.append(LINE.format(name, outcome.cases, seconds, found, outcome.remark).rstrip())
        total += found
        for text in outcome.findings:
            print(f"{name}: {text}", flush=True)
    print("", *rows, sep="\n")
    return total


if __name__ == "__main__":
    sys.exit(min(main(), 1))
