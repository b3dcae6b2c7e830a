"""Scripts that are a study: their options, and its tables."""

import argparse
from pathlib import Path

import numpy as np

import consensus
from consensus import plotting


def options(about, arguments=None, quick=None, **numbers):
    """The folder for the output, and whole ``numbers`` by name: as the user gives them, or as they are here or in ``quick``."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder; what is there is not run again")
    for name, usual in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    if quick:
        parser.add_argument("--quick", action="store_true", help="a tiny version, to see that everything works")
        if parser.parse_args(arguments).quick:
            parser.set_defaults(output=Path("results", "quick"), **quick)
    return parser.parse_args(arguments)


def worst_error(result):
    """The test error of the worst agent after the last round."""
    return float(result.history["test_error_worst"][-1])


def shown(study):
    """The study, after it was run and its tables printed, that of grids if there are any."""
    found = study.run()
    for table in filter(len, (found.table(), found.grids())):
        print(table.to_markdown())
    return found


def histories(found):
    """The histories of the report's runs by the case and the solver, a list with one for each seed."""
    kept = {}
    for key, run in found.runs().query("`for` == 'report'").iterrows():
        kept.setdefault(key, []).append(consensus.load(found.folder / "runs" / run["file"]).history)
    return kept


def quartiles(runs):
    """``{column: (3, rows)}`` over the ``runs`` of all seeds, whose histories have the same rounds."""
    return {column: np.quantile([run[column] for run in runs], (0.25, 0.5, 0.75), axis=0) for column in runs[0]}


def draw(ax, found, y, x, **options):
    """Draw medians after the start with bands between the quartiles; ``found`` are :func:`quartiles` by name."""
    curves = {name: {column: of[column][1, 1:] for column in (x, y)} for name, of in found.items()}
    plotting.convergence(curves, y, x, ax=ax, **options).get_legend().remove()
    for line, of in zip(ax.get_lines(), found.values(), strict=True):
        ax.fill_between(of[x][1, 1:], *of[y][::2, 1:], color=line.get_color(), alpha=0.15, linewidth=0)
