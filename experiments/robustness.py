"""One setting for everything: AdaptiveNEXT over data sets, topologies, sizes and shards, against solvers tuned by a grid."""

import argparse
import csv
import itertools
import math
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # writes files, also where there is no screen

import numpy as np
from tqdm import tqdm

import consensus
from consensus.solvers import DGD, NEXT, AdaptiveNEXT, GradientTracking
from consensus.steps import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments import robustness_cases as cases
from experiments.robustness_linear import linear_table
from experiments.robustness_results import BYTES, MARKS, breakdown, equal_bytes, figure, score, summary

ONCE = {f"{step:g}": step for step in (0.03, 0.1, 0.3, 1.0)}
STEPS = ONCE | {f"{step:g} falling": Diminishing(step, 0.01) for step in (0.3, 1.0)}
CONVEX = {"0.1": 0.1, "0.5": 0.5, "0.5 falling": Diminishing(0.5, 0.01)}  # steps to the minimisers of convex models


def models(surrogate, taus):
    """NEXT with every tau and every step, by name."""
    pairs = itertools.product(taus, CONVEX)
    return {f"tau {tau:g}, step {name}": NEXT(surrogate(tau), CONVEX[name]) for tau, name in pairs}


GRIDS = {  # one setting for all cases, the best on those for tuning
    "AdaptiveNEXT": {"": AdaptiveNEXT()},
    "gradient tracking": {
        f"{order}, step {name}": GradientTracking(step, order=order) for order in ("cta", "atc") for name, step in STEPS.items()
    },
    "DGD": {f"step {name}": DGD(step) for name, step in STEPS.items()},
    "NEXT full": models(FullLinearization, (0.5, 2.0, 8.0, 32.0)),
    "NEXT partial": models(PartialLinearization, (0.3, 1.0, 3.0, 10.0)),
}
FIELDS = ("solver", "setting", "dataset", "topology", "agents", "shards", "seed", "optimum", "start", "highest", "end")
FIELDS += ("exchanges", "bytes", "seconds", *(f"at_{mark}" for mark in MARKS), *(f"at_{sent}_bytes" for sent in BYTES))


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
    try:
        runs = Runs(options.output / "runs.csv", options.jobs)
        chosen = {solver: choose(runs, solver, tuning) for solver in options.solvers}
        done = runs.of([(solver, setting, case) for solver, setting in chosen.items() for case in panel])
        several = runs.of([(solver, setting, case) for solver, setting in chosen.items() for case in digits])
    except (ValueError, OSError) as error:  # no data folder, no network, runs of another version: no need for a traceback
        sys.exit(f"error: {error}")
    write(options.output, "robustness", summary(done, chosen))
    write(options.output, "bytes", equal_bytes(done, chosen))
    write(options.output, "digits", summary(several, chosen))
    write(options.output, "breakdown", breakdown(done))
    write(options.output, "linear", linear_table(quick=options.quick))
    canvas = figure(done, chosen)
    for suffix in ("pdf", "png"):
        canvas.savefig(options.output / f"robustness.{suffix}", dpi=150)
    print(f"The tables and the figure are in {options.output}, every run in {runs.path.name}.")


def choose(runs, solver, tuning):
    """The setting with the best score on the cases ``tuning``; where there is only one, that."""
    settings = list(GRIDS[solver])
    if len(settings) == 1:
        return settings[0]
    tried = runs.of([(solver, setting, case) for setting in settings for case in tuning])
    return min(settings, key=lambda setting: score([run for run in tried if run["setting"] == setting]))


class Runs:
    """Runs, kept in a CSV file from which an interrupted experiment goes on."""

    def __init__(self, path, jobs):
        self.path, self.jobs, self.rows = path, jobs, {}
        if path.exists():
            with open(path, newline="") as file:
                reader = csv.DictReader(file)
                if tuple(reader.fieldnames or ()) != FIELDS:
                    raise ValueError(f"{path} is of another version, with other columns: take another --output, or remove it")
                for row in reader:
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
        method = GRIDS[solver][setting]
        history = consensus.solve(problem, network, method, rounds=MARKS[-1], start=start, exchanges=MARKS[-1]).history
    except consensus.errors.RunError as error:
        history = error.history
    row = dict(zip(FIELDS, (solver, setting, *case), strict=False)) | {"optimum": cases.optimum(case)}
    return row | {"seconds": round(time.perf_counter() - started, 2)} | measured(history)


def measured(history):
    """What a row says of a history: where the run started and ended, and where it was after so many exchanges and bytes."""
    objective = np.where(np.isfinite(history["objective"]), history["objective"], np.inf)
    exchanges, sent = history["exchanges"], history["bytes"]
    row = {"start": objective[0], "highest": objective.max(), "end": objective[-1]}
    row |= {"exchanges": int(exchanges[-1]), "bytes": int(sent[-1])}
    diverged = exchanges[-1] < MARKS[-1] and history["round"][-1] < MARKS[-1]
    for column, marks, name in ((exchanges, MARKS, "at_{}"), (sent, BYTES, "at_{}_bytes")):
        for mark in marks:
            lost = diverged and column[-1] < mark
            row[name.format(mark)] = math.inf if lost else objective[np.searchsorted(column, mark, side="right") - 1]
    return row


def write(folder, name, table):
    """Write a table as CSV, Markdown and LaTeX; print it."""
    for suffix, text in (("csv", table.csv()), ("md", table.markdown()), ("tex", table.latex())):
        (folder / f"{name}.{suffix}").write_text(text)
    print(f"{name}\n{table.markdown()}")


if __name__ == "__main__":
    main()
