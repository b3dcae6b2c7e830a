"""The runs of the robustness experiment, kept in a file, and the settings that are chosen by them."""

import csv
import itertools
import math
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from tqdm import tqdm

import consensus
from consensus.solvers import DATOS, DGD, NEXT, AdaptiveNEXT, AutoGT, GradientTracking
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.robustness import cases
from experiments.robustness.results import BYTES, MARKS, SECONDS, case_of, score

ONCE = {f"{step:g}": step for step in (0.03, 0.1, 0.3, 1.0)}
STEPS = ONCE | {f"{step:g} falling": Diminishing(step, 0.01) for step in (0.3, 1.0)}
CONVEX = {"0.1": 0.1, "0.5": 0.5, "0.5 falling": Diminishing(0.5, 0.01)}  # steps to the minimisers of convex models


def models(surrogate, taus):
    """NEXT with every tau and every step, by name."""
    pairs = itertools.product(taus, CONVEX)
    return {f"tau {tau:g}, step {name}": NEXT(surrogate(tau), CONVEX[name]) for tau, name in pairs}


GRIDS = {  # one setting for all cases, the best on those for tuning
    "AdaptiveNEXT": {"": AdaptiveNEXT()},
    "AutoGT": {"": AutoGT()},
    "DATOS": {"": DATOS()},
    "gradient tracking": {
        f"{order}, step {name}": GradientTracking(step, order=order) for order in ("cta", "atc") for name, step in STEPS.items()
    },
    "DGD": {f"step {name}": DGD(step) for name, step in STEPS.items()},
    "NEXT full": models(FullLinearization, (0.5, 2.0, 8.0, 32.0)),
    "NEXT partial": models(PartialLinearization, (0.3, 1.0, 3.0, 10.0)),
}
FIELDS = ("solver", "setting", "dataset", "topology", "agents", "shards", "seed", "optimum", "start", "highest", "end")
FIELDS += ("exchanges", "bytes", "seconds", *(f"at_{mark}" for mark in MARKS), *(f"at_{sent}_bytes" for sent in BYTES))
FIELDS += tuple(f"at_{mark}_seconds" for mark in SECONDS)


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
    return (row["solver"], row["setting"], *case_of(row))


def run(task):
    """One run, as a row."""
    solver, setting, case = task
    problem, network, start = cases.make(case)
    try:
        method = GRIDS[solver][setting]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*'s theory needs")  # rivals run on all cases, those beyond their theory, too
            history = consensus.solve(problem, network, method, rounds=MARKS[-1], start=start, exchanges=MARKS[-1]).history
    except consensus.errors.RunError as error:
        history = error.history
    row = dict(zip(FIELDS, (solver, setting, *case), strict=False)) | {"optimum": cases.optimum(case)}
    return row | measured(history)


def measured(history):
    """What a row says of a history: where the run started and ended, and where it was when so much had been spent."""
    objective = np.where(np.isfinite(history["objective"]), history["objective"], np.inf)
    exchanges, sent, seconds = (history[name] for name in ("exchanges", "bytes", "seconds"))
    row = {"start": objective[0], "highest": objective.max(), "end": objective[-1]}
    row |= {"exchanges": int(exchanges[-1]), "bytes": int(sent[-1]), "seconds": round(seconds[-1], 3)}
    diverged = exchanges[-1] < MARKS[-1] and history["round"][-1] < MARKS[-1]
    every = (exchanges, MARKS, "at_{}"), (sent, BYTES, "at_{}_bytes"), (seconds, SECONDS, "at_{}_seconds")
    for column, marks, name in every:
        for mark in marks:
            lost = diverged and column[-1] < mark
            row[name.format(mark)] = math.inf if lost else objective[max(np.searchsorted(column, mark, side="right") - 1, 0)]
    return row
