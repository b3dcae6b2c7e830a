"""Solvers without settings on cases that chose no constant: sums over trees against L-BFGS, gossip against tuned rivals.

python -m experiments.untuned [trees | gossip | default | drawn] [--cases 2] [--seed 1] [--quick]
"""

import argparse

from experiments.untuned import cases, default, drawn, gossip, trees


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m experiments.untuned", description=__doc__)
    parser.add_argument(
        "half", nargs="?", choices=("trees", "gossip", "default", "drawn"), help="which; default: the first two"
    )
    parser.add_argument("--cases", type=int, help="how many of each; default: all; 60 that are drawn")
    parser.add_argument("--seed", type=int, default=0, help="of those that are drawn; default: 0")
    parser.add_argument("--quick", action="store_true", help="gossip and default: two small cases, one point of each grid")
    options = parser.parse_args(arguments)
    if options.half == "drawn":
        print(drawn.run(60 if options.cases is None else options.cases, options.seed, quick=options.quick).markdown())
    if options.half in (None, "trees"):
        print(trees.run(cases.TREES[: options.cases]).markdown())
    for half, study, all_cases in (("gossip", gossip, cases.GOSSIP), ("default", default, cases.DEFAULT)):
        if options.half == half or (options.half is None and half == "gossip"):
            some = cases.QUICK[half] if options.quick else all_cases
            for title, table in study.run(some[: options.cases], quick=options.quick).items():
                print(f"{title}\n\n{table.markdown()}")


if __name__ == "__main__":
    main()
