"""One setting for everything: AdaptiveNEXT, AutoGT, DATOS on many data, networks, shards, against solvers tuned by a grid."""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # writes files, also where there is no screen

from consensus._parallel import cores
from experiments.robustness import cases
from experiments.robustness.linear import linear_table
from experiments.robustness.results import at_equal, breakdown, figure, summary
from experiments.robustness.runs import GRIDS, Runs, choose


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m experiments.robustness", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results/robustness"),
        help="folder for runs, tables, figure; runs that are there are kept: after a change of a solver take another",
    )
    parser.add_argument("--jobs", type=int, default=cores(), help="runs at a time")
    parser.add_argument(
        "--solvers",
        nargs="+",
        choices=tuple(GRIDS),
        default=list(GRIDS),
        help="rows of the tables; runs of others stay in the folder, for tables with all of them later",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of shards, graphs and starts")
    parser.add_argument("--agents", type=int, nargs="+", choices=(10, 30), default=[10, 30], help="sizes of the networks")
    parser.add_argument("--quick", action="store_true", help="a few small cases only")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    panel, tuning, digits = cases.quick() if options.quick else cases.panels(options.agents, options.seeds)
    try:
        runs = Runs(options.output / "runs.csv", options.jobs)
        chosen = {solver: choose(runs, solver, tuning) for solver in options.solvers}
        done = runs.of([(solver, setting, case) for solver, setting in chosen.items() for case in panel])
        several = runs.of([(solver, setting, case) for solver, setting in chosen.items() for case in digits])
    except (ValueError, OSError) as error:  # no data folder, no network, runs of another version: no need for a traceback
        sys.exit(f"error: {error}")
    tables = {
        "robustness": summary(done, chosen),
        "bytes": at_equal("bytes", done, chosen),
        "seconds": at_equal("seconds", done, chosen),
        "digits": summary(several, chosen),
    }
    if "AdaptiveNEXT" in chosen:  # these are about it
        tables |= {"breakdown": breakdown(done), "linear": linear_table(quick=options.quick)}
    for name, table in tables.items():
        table.write(options.output, name)
        print(f"{name}\n{table.markdown()}")
    canvas = figure(done, chosen)
    for suffix in ("pdf", "png"):
        canvas.savefig(options.output / f"robustness.{suffix}", dpi=150)
    print(f"The tables and the figure are in {options.output}, every run in {runs.path.name}.")


if __name__ == "__main__":
    main()
