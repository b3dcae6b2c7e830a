"""Solvers without settings on cases that chose no constant: sums over trees against L-BFGS, gossip against tuned rivals.

python -m experiments.untuned [trees | gossip] [--cases 2] [--quick]
"""

import argparse

from experiments.untuned import cases, gossip, gossip_cases, trees


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m experiments.untuned", description=__doc__)
    parser.add_argument("half", nargs="?", choices=("trees", "gossip"), help="which of the two; default: both")
    parser.add_argument("--cases", type=int, help="how many of the ten of each; default: all")
    parser.add_argument("--quick", action="store_true", help="gossip: two small cases, one point of each grid")
    options = parser.parse_args(arguments)
    if options.half != "gossip":
        print(trees.run(cases.CASES[: options.cases]).markdown())
    if options.half != "trees":
        some = gossip_cases.QUICK if options.quick else gossip_cases.CASES
        for title, table in gossip.run(some[: options.cases], quick=options.quick).items():
            print(f"{title}\n\n{table.markdown()}")


if __name__ == "__main__":
    main()
