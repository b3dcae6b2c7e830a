"""One setting for everything: AdaptiveNEXT, AutoGT, DATOS on many data, networks, shards, against solvers tuned by a grid."""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # writes files, also where there is no screen

from consensus._arrays.parallel import cores
from experiments.robustness import cases
from experiments.robustness.linear import linear_table
from experiments.robustness.results import MEASURES, SHOWN, at_equal_bytes, breakdown, figure, merits, summary
from experiments.robustness.runs import SOLVERS, Runs, tuned
from experiments.shared import tuning


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
        choices=tuple(SOLVERS),
        default=list(SOLVERS),
        help="rows of the tables; runs of others stay in the folder, for tables with all of them later",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of shards, graphs and starts")
    parser.add_argument("--agents", type=int, nargs="+", choices=(10, 30), default=[10, 30], help="sizes of the networks")
    parser.add_argument("--quick", action="store_true", help="a few small cases only")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    panel, few, digits = cases.quick() if options.quick else cases.panels(options.agents, options.seeds)
    try:
        runs = Runs(options.output / "runs.csv", options.jobs)
        found, families = tuned(runs, options.solvers, few, quick=options.quick)
        chosen = {
            solver: {mark: tuning.chosen(found, (solver,), mark, merits) for mark in MEASURES} for solver in options.solvers
        }
        wanted = [(*at, case) for best in chosen.values() for at in dict.fromkeys(best.values()) for case in panel + digits]
        rows = dict(zip(wanted, runs.of(wanted), strict=True))
    except (ValueError, OSError) as error:  # no data folder, no network, runs of another version: no need for a traceback
        sys.exit(f"error: {error}")
    done, several = (
        {solver: {mark: [rows[*at, case] for case in some] for mark, at in best.items()} for solver, best in chosen.items()}
        for some in (panel, digits)
    )
    settings = {solver: families[key].shown(point) for solver, best in chosen.items() for key, point in [best[SHOWN[-1]]]}
    tables = {
        "robustness": summary(done, settings),
        "bytes": at_equal_bytes(done),
        "digits": summary(several, settings),
        "grids": tuning.grids(found, families, merits, ("solver", "steps")),
    }
    if "AdaptiveNEXT" in chosen:  # these are about it
        tables |= {"breakdown": breakdown(done["AdaptiveNEXT"][SHOWN[-1]]), "linear": linear_table(quick=options.quick)}
    for name, table in tables.items():
        table.write(options.output, name)
        print(f"{name}\n{table.markdown()}")
    canvas = figure(done)
    for suffix in ("pdf", "png"):
        canvas.savefig(options.output / f"robustness.{suffix}", dpi=150)
    print(f"The tables and the figure are in {options.output}, every run in {runs.path.name}.")


if __name__ == "__main__":
    main()
