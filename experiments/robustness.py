"""One setting for everything: AdaptiveNEXT over data sets, topologies, sizes and shards, against solvers tuned by a grid."""

import argparse
import csv
import math
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # writes files, also where there is no screen

import matplotlib.pyplot as plt
import numpy as np
from tqdm import tqdm

import consensus
from consensus import plotting
from consensus.solvers import DGD, NEXT, AdaptiveNEXT, GradientTracking
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments import robustness_cases as cases
from experiments.robustness_linear import linear_table
from experiments.tables import Table

MARKS = (10, 20, 30, 50, 70, 100, 140, 200, 300, 400, 500, 600, 700, 800, 900, 1000)  # exchanges
BLOWN_UP = 1e3  # what a run that diverged, or ended far above its start, counts as
# One number each, the best on the tuning cases: a step, or a tau at a step of one half.
GRIDS = {
    "AdaptiveNEXT": {"": AdaptiveNEXT},
    "gradient tracking": {f"step {s:g}": lambda s=s: GradientTracking(s) for s in (0.01, 0.03, 0.1, 0.3, 1.0)},
    "DGD": {f"step {s:g}": lambda s=s: DGD(s) for s in (0.01, 0.03, 0.1, 0.3, 1.0)},
    "NEXT full": {f"tau {t:g}": lambda t=t: NEXT(FullLinearization(t), 0.5) for t in (0.5, 2.0, 8.0, 32.0)},
    "NEXT partial": {f"tau {t:g}": lambda t=t: NEXT(PartialLinearization(t), 0.5) for t in (0.3, 1.0, 3.0, 10.0)},
}
FIELDS = ("solver", "setting", "dataset", "topology", "agents", "shards", "seed", "optimum", "start", "highest", "end")
FIELDS += ("exchanges", "floats", "seconds", *(f"at_{mark}" for mark in MARKS))


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
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count(), help="runs at a time")
    parser.add_argument("--solvers", nargs="+", choices=tuple(GRIDS), default=list(GRIDS), help="the rows of the table")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of shards, graphs and starts")
    parser.add_argument("--agents", type=int, nargs="+", choices=(10, 30), default=[10, 30], help="sizes of the networks")
    parser.add_argument("--quick", action="store_true", help="a few small cases only")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    panel, tuning, digits = cases.quick() if options.quick else cases.panels(options.agents, options.seeds)
    runs = Runs(options.output / "runs.csv", options.jobs)
    try:
        chosen = {}
        for solver in options.solvers:
            settings = list(GRIDS[solver])
            if len(settings) > 1:
                tried = runs.of([(solver, setting, case) for setting in settings for case in tuning])
                settings.sort(key=lambda setting: mean_ratio([run for run in tried if run["setting"] == setting], 1000))
            chosen[solver] = settings[0]
        done = runs.of([(solver, setting, case) for solver, setting in chosen.items() for case in panel])
        several = runs.of([(solver, setting, case) for solver, setting in chosen.items() for case in digits])
    except (ValueError, OSError) as error:  # no data folder, no network: no need for a traceback
        sys.exit(f"error: {error}")
    write(options.output, "robustness", summary(done, chosen))
    write(options.output, "digits", summary(several, chosen))
    write(options.output, "breakdown", breakdown(done))
    write(options.output, "linear", linear_table(quick=options.quick))
    canvas = figure(done, chosen)
    for suffix in ("pdf", "png"):
        canvas.savefig(options.output / f"robustness.{suffix}", dpi=150)
    print(f"The tables and the figure are in {options.output}, every run in {runs.path.name}.")


class Runs:
    """Runs, kept in a CSV file from which an interrupted experiment goes on."""

    def __init__(self, path, jobs):
        self.path, self.jobs, self.rows = path, jobs, {}
        if path.exists():
            with open(path, newline="") as file:
                for row in csv.DictReader(file):
                    row = {name: row[name] if name in (*FIELDS[:4], "shards") else float(row[name]) for name in FIELDS}
                    self.rows[_key(row)] = row
        else:
            path.write_text(",".join(FIELDS) + "\n")

    def of(self, wanted):
        """The rows of ``wanted``, tuples (solver, setting, case); those that are missing are run."""
        missing = [run for run in wanted if self._key(run) not in self.rows]
        if missing:
            context = multiprocessing.get_context("spawn")
            with (
                open(self.path, "a", newline="") as file,
                ProcessPoolExecutor(self.jobs, mp_context=context, initializer=cases.one_thread) as pool,
                tqdm(total=len(missing), desc="runs", disable=None) as bar,
            ):
                writer = csv.DictWriter(file, FIELDS)
                for row in pool.map(run, missing):
                    self.rows[_key(row)] = row
                    writer.writerow(row)
                    file.flush()
                    bar.set_postfix_str(row["solver"])
                    bar.update()
        return [self.rows[self._key(run)] for run in wanted]

    def _key(self, run):
        solver, setting, case = run
        return (solver, setting, *case)


def _key(row):
    return (*(row[name] for name in FIELDS[:4]), int(row["agents"]), row["shards"], int(row["seed"]))


def run(task):
    """One run, as a row."""
    solver, setting, case = task
    problem, network, start = cases.make(case)
    started = time.perf_counter()
    try:
        method = GRIDS[solver][setting]()
        history = consensus.solve(problem, network, method, rounds=MARKS[-1], start=start, exchanges=MARKS[-1]).history
    except consensus.errors.RunError as error:
        history = error.history
    seconds = time.perf_counter() - started
    objective = np.where(np.isfinite(history["objective"]), history["objective"], np.inf)
    exchanges = history["exchanges"]
    row = dict(zip(FIELDS, (solver, setting, *case), strict=False))
    row |= {"optimum": cases.optimum(case), "start": objective[0], "highest": objective.max(), "end": objective[-1]}
    row |= {"exchanges": int(exchanges[-1]), "floats": int(history["floats"][-1]), "seconds": round(seconds, 2)}
    diverged = exchanges[-1] < MARKS[-1] and history["round"][-1] < MARKS[-1]
    for mark in MARKS:
        lost = diverged and exchanges[-1] < mark
        row[f"at_{mark}"] = math.inf if lost else objective[np.searchsorted(exchanges, mark, side="right") - 1]
    return row


def ratios(rows, mark):
    """Objective over L-BFGS's optimum after ``mark`` exchanges, of every run."""
    values = np.array([row[f"at_{mark}"] / row["optimum"] for row in rows])
    return np.where(values < BLOWN_UP, values, BLOWN_UP)


def mean_ratio(rows, mark):
    """Its geometric mean."""
    return float(np.exp(np.log(ratios(rows, mark)).mean()))


def summary(rows, chosen):
    """A row a solver: how far it is after so many exchanges, and what went wrong."""
    names = {f"at {m}": ".2f" for m in (50, 200)} | {"at 1000": ".3f", "worst at 200": ".2f", "worst at 1000": ".2f"}
    table = Table(
        {"solver": "", "setting": "", **names, "ever above": ".0f", "ended above": ".0f", "runs": ".0f", "floats": ".2e"}
    )
    for solver, setting in chosen.items():
        own = [row for row in rows if row["solver"] == solver]
        if not own:
            continue
        means = [mean_ratio(own, mark) for mark in (50, 200, 1000)]
        worst = [ratios(own, mark).max() for mark in (200, 1000)]
        above = [sum(not row[name] <= 1.05 * row["start"] for row in own) for name in ("highest", "end")]
        table.add(solver, setting, *means, *worst, *above, len(own), float(np.median([row["floats"] for row in own])))
    return table


def breakdown(rows):
    """AdaptiveNEXT by data set, topology, agents and shards."""
    table = Table({"runs with": "", "at 50": ".2f", "at 200": ".2f", "at 1000": ".3f", "worst at 1000": ".2f", "runs": ".0f"})
    own = [row for row in rows if row["solver"] == "AdaptiveNEXT"]
    for name in ("dataset", "topology", "agents", "shards"):
        for value in sorted({row[name] for row in own}):
            some = [row for row in own if row[name] == value]
            shown = f"{value:.0f} agents" if name == "agents" else str(value).replace("_", " ")
            table.add(shown, *(mean_ratio(some, m) for m in (50, 200, 1000)), ratios(some, 1000).max(), len(some))
    return table


def figure(rows, chosen):
    """Geometric means with the runs' middle 80%, and AdaptiveNEXT by topology."""
    canvas, (left, right) = plt.subplots(1, 2, figsize=(11, 4.3), layout="constrained", sharey=True)
    for index, solver in enumerate(chosen):
        own = [row for row in rows if row["solver"] == solver]
        _curve(left, own, solver, index, band=True)
    own = [row for row in rows if row["solver"] == "AdaptiveNEXT"]
    for index, topology in enumerate(sorted({row["topology"] for row in own})):
        _curve(right, [row for row in own if row["topology"] == topology], topology.replace("_", " "), index, band=False)
    for ax, title in ((left, "all cases: geometric mean, middle 80% of runs"), (right, "AdaptiveNEXT by topology")):
        ax.set(xscale="log", yscale="log", xlabel=plotting.LABELS["exchanges"], title=title, ylim=(0.85, 40))
        ax.set_yticks([1, 2, 5, 10, 20], labels=["1", "2", "5", "10", "20"])
        ax.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
        ax.axhline(1, color="0.6", linewidth=0.8)
        ax.grid(True, color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.legend(frameon=False)
    left.set_ylabel("objective over L-BFGS's optimum")
    return canvas


def _curve(ax, rows, label, index, band):
    values = np.array([ratios(rows, mark) for mark in MARKS])
    colour, dash = plotting.COLOURS[index % 5], plotting.DASHES[index % 5]
    marker = plotting.MARKERS[index % 5]
    ax.plot(
        MARKS,
        np.exp(np.log(values).mean(axis=1)),
        linestyle=dash,
        color=colour,
        marker=marker,
        markersize=4,
        label=label,
    )
    if band:
        ax.fill_between(MARKS, *np.quantile(values, (0.1, 0.9), axis=1), color=colour, alpha=0.12, linewidth=0)


def write(folder, name, table):
    """Write a table as CSV, Markdown and LaTeX; print it."""
    for suffix, text in (("csv", table.csv()), ("md", table.markdown()), ("tex", table.latex())):
        (folder / f"{name}.{suffix}").write_text(text)
    print(f"{name}\n{table.markdown()}")


if __name__ == "__main__":
    main()
