"""Scripts that are studies: their options, their folder, and what their runs came to."""

import argparse
import functools
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import joblib
import matplotlib

matplotlib.use("Agg")  # writes files, also where there is no screen

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import consensus
from consensus import datasets, plotting
from consensus._arrays.parallel import cores
from consensus.history import History
from consensus.studies import Study
from experiments.shared.environment import environment


def options(about, arguments=None, quick=None, *, dataset=(), workers=None, **numbers):
    """The folder for the output, and ``dataset`` and whole ``numbers`` by name: as the user gives them, or as in ``quick``."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder; what is there is not run again")
    at_once = f"runs at a time; default: {workers or 'one a core'}"
    parser.add_argument("--workers", type=_whole, default=workers or cores(), help=at_once)
    if dataset:
        known = f"data sets; default: {' '.join(dataset)}"
        parser.add_argument("--dataset", nargs="+", choices=datasets.NAMES, metavar="NAME", default=list(dataset), help=known)
    for name, usual in numbers.items():
        parser.add_argument(f"--{name}", type=_whole, default=usual, help=f"default: {usual}")
    if quick:
        parser.add_argument("--quick", action="store_true", help="a tiny version, to see that everything works")
        if parser.parse_args(arguments).quick:
            parser.set_defaults(output=Path("results", "quick"), workers=1, **quick)
    return parser.parse_args(arguments)


def _whole(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number >= 1; got {text!r}")
    return int(text)


class Folder:
    """The folder ``name`` of a script in the output, which says how and where it was made: its figures, tables and runs."""

    def __init__(self, given, name):
        self.path = given.output / name
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:  # no need for a traceback
            sys.exit(f"error: --output: cannot write to {self.path} ({error.strerror})")
        about = {option: str(value) if isinstance(value, Path) else value for option, value in vars(given).items()}
        self.seeds = getattr(given, "seeds", 1)
        self.about = json.dumps({"options": about, "environment": environment()}, indent=1) + "\n"

    def __truediv__(self, name):
        return self.path / name

    def kept(self, function):
        """The function, whose values are kept on disk: what is no study is not run again, either."""
        return joblib.Memory(self / "kept", verbose=0).cache(function)

    def figure(self, figure, name="figure"):
        """Write a figure as PDF and PNG, and how it was made."""
        (self / "about.json").write_text(self.about)
        figure.savefig(self / f"{name}.pdf", metadata={"CreationDate": None})  # the same figure, the same bytes
        figure.savefig(self / f"{name}.png", dpi=150)
        plt.close(figure)
        print(f"figure  {self / name}.png, .pdf")

    def table(self, table, name="table"):
        """Print a table, and write it as CSV, Markdown and LaTeX, and how it was made."""
        (self / "about.json").write_text(self.about)
        table.seeds = self.seeds
        table.write(self.path, name)
        print(f"\n{table.markdown()}\ntable   {self / name}.csv, .md, .tex\n")

    def grids(self, tables):
        """Write what studies tried, tables by name, as Markdown."""
        shown = (f"{name}\n\n{table.to_markdown()}\n" for name, table in tables.items() if len(table))
        (self / "grids.md").write_text("\n".join(shown))


class Outcome(NamedTuple):
    """A run: its history, the final iterates w (agents, P), why it ended, the solver's setting, and what makes its case."""

    history: History
    w: np.ndarray
    reason: str = "done"
    setting: str = ""
    made: Callable | None = None

    @property
    def diverged(self):
        """True if the run ended before its time; ``w`` is then empty."""
        return len(self.w) == 0

    @property
    def problem(self):
        """What it is on."""
        return self.made()[0]


def ran(study, workers, **more):
    """The study, after its runs; where they do not fit its folder, the script ends with a line that says so."""
    try:
        return study.run(workers, **more)
    except ValueError as error:
        if "folder" not in str(error):
            raise
        sys.exit(f"error: {error} (--output names another one)")


def outcomes(found):
    """The outcomes of a study's report by tuples of the case's values and the solver, a list with one for each seed."""
    kept = {}
    for key, run in found.runs().query("`for` == 'report'").iterrows():
        *values, solver = key if isinstance(key, tuple) else (key,)
        made = functools.partial(found.case, run["seed"], **dict(zip(found.over, values, strict=True)))
        result = consensus.load(found.folder / "runs" / run["file"])
        kept.setdefault((*values, solver), []).append(Outcome(result.history, result.w, result.reason, run["setting"], made))
    return kept


def finished(study, given):
    """The outcomes of a study as :func:`outcomes` has them, after its runs; its page is written, but for a tiny version."""
    ran(study, given.workers)
    if not given.quick:
        print(f"page    {study.report()}")
    return outcomes(study)


def trained(given, folder, case, over, solvers, *, rows=300, **fixed):
    """The outcomes of ``{times: {name: solver}}``, which run ``times`` the rounds, by the case's values and the solver.

    The case is ``case(seed, **values, every, **fixed)``; histories have a row ``every`` so many rounds, about ``rows`` in all.
    """
    found = {}
    for times, own in solvers.items():
        rounds = times * given.rounds
        made = functools.partial(case, every=max(1, rounds // rows), **fixed)
        usual = {"seeds": given.seeds, "measure": objective, "folder": folder / f"rounds-{rounds}"}
        found |= finished(Study(made, over=over, solvers=own, rounds=rounds, **usual), given)
    return {key: found[key] for key in itertools.product(*over.values(), itertools.chain(*solvers.values()))}


def worst_error(result):
    """The test error of the worst agent after the last round."""
    return float(result.history["test_error_worst"][-1])


def objective(result):
    """The objective at the agents' mean after the last round."""
    return float(result.history["objective"][-1])


def shown(study, workers=1):
    """The study, after it was run and its tables printed, that of grids if there are any."""
    found = ran(study, workers)
    for table in filter(len, (found.table(), found.grids())):
        print(table.to_markdown())
    return found


def histories(found):
    """The histories of the report's runs by the case and the solver, a list with one for each seed."""
    return {key if len(key) > 1 else key[0]: [run.history for run in runs] for key, runs in outcomes(found).items()}


def quartiles(runs):
    """``{column: (3, rows)}`` over the ``runs`` of all seeds, whose histories have the same rounds."""
    return {column: np.quantile([run[column] for run in runs], (0.25, 0.5, 0.75), axis=0) for column in runs[0]}


def ends(found, forms, seeds):
    """The ends of :func:`quartiles` by name, over so many seeds, as Markdown; ``forms`` are columns and how they are shown."""

    def cell(column, form):
        low, middle, high = (form.format(value) for value in column[:, -1])
        return middle if low == high else f"{middle} [{low}, {high}]"

    rows = {name: {column: cell(of[column], form) for column, form in forms.items()} for name, of in found.items()}
    table = pd.DataFrame.from_dict(rows, orient="index").to_markdown(disable_numparse=True)
    return f"\nat the end: median [quartiles] of {seeds} seed{'s' * (seeds > 1)}\n\n{table}"


def draw(ax, found, y, x, **options):
    """Draw medians after the start with bands between the quartiles; ``found`` are :func:`quartiles` by name."""
    curves = {name: {column: of[column][1, 1:] for column in (x, y)} for name, of in found.items()}
    plotting.convergence(curves, y, x, ax=ax, **options).get_legend().remove()
    for line, of in zip(ax.get_lines(), found.values(), strict=True):
        ax.fill_between(of[x][1, 1:], *of[y][::2, 1:], color=line.get_color(), alpha=0.15, linewidth=0)
