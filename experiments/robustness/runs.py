"""The runs of the robustness experiment, kept in a file, and the settings that are chosen by them."""

import csv
import functools
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
from experiments.robustness.results import BYTES, MARKS, case_of, merits
from experiments.shared import methods, tuning
from experiments.shared.tuning import Axis, Family


def steps(make, label=""):
    """Families of ``make(step)``: with constant steps and with falling ones."""
    names = [", ".join(filter(None, (label, kind))) for kind in ("constant", "falling")]
    return [
        Family(make, (Axis("step", (0.1, 0.2, 0.4)),), names[0]),
        Family(lambda step: make(Diminishing(step, 0.01)), (Axis("first step", (0.3, 0.6)),), names[1]),
    ]


def models(surrogate):
    """Families of NEXT with such a surrogate: with constant steps and with falling ones."""
    tau = Axis("tau", (0.5, 1.0), least=methods.LEAST)
    return [
        Family(lambda tau, step: NEXT(surrogate(tau), step), (tau, Axis("step", (0.1, 0.2), most=1.0)), "constant"),
        Family(
            lambda tau, step: NEXT(surrogate(tau), Diminishing(step, 0.01)),
            (tau, Axis("first step", (0.5,), most=1.0)),
            "falling",
        ),
    ]


SOLVERS = {  # one setting for all cases, by each measure the best on those for tuning
    "AdaptiveNEXT": [Family(AdaptiveNEXT)],
    "AutoGT": [Family(AutoGT)],
    "DATOS": [Family(DATOS)],
    "gradient tracking": steps(GradientTracking, "atc") + steps(functools.partial(GradientTracking, order="cta"), "cta"),
    "DGD": steps(DGD),
    "NEXT full": models(FullLinearization),
    "NEXT partial": models(PartialLinearization),
}
FAMILIES = {(solver, family.label): family for solver, some in SOLVERS.items() for family in some}
FIELDS = ("solver", "setting", "dataset", "topology", "agents", "shards", "seed", "optimum", "start", "highest", "end")
FIELDS += ("exchanges", "bytes", *(f"at_{mark}" for mark in MARKS), *(f"at_{sent}_bytes" for sent in BYTES))


def tuned(runs, solvers, cases, *, quick=False):
    """Return the settings that :func:`experiments.shared.tuning.tuned` finds on ``cases``, and its families."""
    families = {key: family for key, family in FAMILIES.items() if key[0] in solvers}

    def run(points):
        rows = iter(runs.of([(*at, case) for at in points for case in cases]))
        return {at: [next(rows) for _ in cases] for at in points}

    return tuning.tuned(run, families, merits, quick=quick), families


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
        """The rows of ``wanted``, tuples (key of a family, point, case); those that are missing are run."""
        missing = [run for run in dict.fromkeys(wanted) if self._key(run) not in self.rows]
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
        key, point, case = run
        return (key[0], FAMILIES[key].shown(point), *case)


def _key(row):
    return (row["solver"], row["setting"], *case_of(row))


def run(task):
    """One run, as a row."""
    key, point, case = task
    problem, network, start = cases.make(case)
    try:
        method = FAMILIES[key].make(*point)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*'s theory needs")  # rivals run on all cases, those beyond their theory, too
            warnings.filterwarnings("ignore", ".*ended above its start")  # the table counts them
            warnings.simplefilter("ignore", consensus.errors.UnfinishedWarning)  # of the smallest tau
            options = {"rounds": MARKS[-1], "exchanges": MARKS[-1], "record_every": 1, "start": start}
            history = consensus.solve(problem, network, method, **options).history
    except consensus.errors.RunError as error:
        history = error.history
    named = (key[0], FAMILIES[key].shown(point), *case)
    return dict(zip(FIELDS, named, strict=False)) | {"optimum": cases.optimum(case)} | measured(history)


def measured(history):
    """Return the row of a history: objectives at the start, at the end, and after given amounts of communication."""
    objective = np.where(np.isfinite(history["objective"]), history["objective"], np.inf)
    exchanges, sent = history["exchanges"], history["bytes"]
    row = {"start": objective[0], "highest": objective.max(), "end": objective[-1]}
    row |= {"exchanges": int(exchanges[-1]), "bytes": int(sent[-1])}
    diverged = exchanges[-1] < MARKS[-1] and history["round"][-1] < MARKS[-1]
    for column, marks, name in ((exchanges, MARKS, "at_{}"), (sent, BYTES, "at_{}_bytes")):
        for mark in marks:
            lost = diverged and column[-1] < mark
            row[name.format(mark)] = math.inf if lost else objective[max(np.searchsorted(column, mark, side="right") - 1, 0)]
    return row
