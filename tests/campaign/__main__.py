"""Try hard to break the package: python -m tests.campaign [--short] [--seed N] [part ...]."""

import argparse
import sys
import time

from tests.campaign.parts import PARTS

LINE = "{:<16} {:>8} {:>8} {:>9}  {}"


def main(arguments=None):
    """Run the parts, print what they found and a table; the number of findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__.split(":")[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"which, of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--short", action="store_true", help="a few cases of each")
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default 0)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    rows, total = [], 0
    for name in options.parts or PARTS:
        part, begin = PARTS[name], time.monotonic()
        outcome = part.search(part.short if options.short else part.whole, options.seed)
        rows.append((name, outcome.cases, f"{time.monotonic() - begin:.0f}", len(outcome.findings), outcome.remark))
        total += len(outcome.findings)
        for text in outcome.findings:
            print(f"{name}: {text}", flush=True)
    print("\n" + LINE.format("part", "cases", "seconds", "findings", "").rstrip())
    for row in rows:
        print(LINE.format(*row).rstrip())
    return total


if __name__ == "__main__":
    sys.exit(min(main(), 1))
