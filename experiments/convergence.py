"""NEXT, gradient tracking and DGD on six data sets: the exchanges that each needs for the same objective."""

import itertools
import math

import numpy as np

from consensus.solvers import DGD, NEXT, AdaptiveNEXT, GradientTracking
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared import centralised, curves
from experiments.shared.cases import graph
from experiments.shared.harness import Experiment
from experiments.shared.results import RECORDS, training
from experiments.shared.tables import Spread, Table, last

DATASETS = ("boston", "kin8nm", "wine", "diabetes", "breast_cancer", "mnist")
PARTIAL, LOCAL = "NEXT, partial, network curvature", "NEXT, partial, local curvature"  # the second is that of the 2017 paper
FULL, TRACKING, ADAPTIVE = "NEXT, full linearization", "gradient tracking", "AdaptiveNEXT"
SLOW, SLOWER = 0.01, 0.001  # how the steps of NEXT fall; the second over the ten times as many rounds of cheap solvers
GRID = {  # every solver runs with the best of these on each data set
    PARTIAL: {
        f"tau {tau}, step {name}": NEXT(PartialLinearization(tau), step)
        for tau in (0.03, 0.1, 0.3)
        for name, step in {"0.3": 0.3, "0.6 falling": Diminishing(0.6, SLOW), "1 falling": Diminishing(1.0, SLOW)}.items()
    },
    LOCAL: {  # an agent's local curvature is a tenth of the network's: a tenth of tau and step is the same, and more of each
        f"tau {tau}, step {name}": NEXT(PartialLinearization(tau, curvature="local"), step)
        for tau in (0.001, 0.003, 0.01, 0.03, 0.1)
        for name, step in {
            "0.1": 0.1,
            "0.06 falling": Diminishing(0.06, 10 * SLOW),
            "0.1 falling": Diminishing(0.1, 10 * SLOW),
        }.items()
    },
    FULL: {
        f"tau {tau}, step {name}": NEXT(FullLinearization(tau), step)
        for tau in (0.3, 1.0)
        for name, step in {"0.1": 0.1, "0.3": 0.3, "0.6": 0.6, "0.6 falling": Diminishing(0.6, SLOWER)}.items()
    },
    TRACKING: {f"atc, step {a}": GradientTracking(a) for a in (0.2, 0.3, 0.6)}
    | {f"cta, step {a}": GradientTracking(a, order="cta") for a in (0.1, 0.3, 0.6)},
    "DGD": {f"step {a}": DGD(a) for a in (0.1, 0.2, 0.6)}
    | {f"step {a} falling": DGD(Diminishing(a, SLOWER)) for a in (0.3, 0.6)},
    ADAPTIVE: {"": AdaptiveNEXT()},
}
LBFGS, DESCENT = "L-BFGS, centralised", "gradient descent, centralised"
REFERENCES = {LBFGS: centralised.lbfgs, DESCENT: centralised.gradient_descent}
LEVELS = (0.1, 0.03, 0.01)  # of the gap between the start and the best objective; settings go by the last
TRIALS = 2  # repeats on which the settings are tried; the one whose worst of them is best is taken for all
MORE, ADAPTIVES = 10, 3  # exchanges of the other solvers, whose rounds are cheap, for one of it; of AdaptiveNEXT
# Where 15,910 parameters make rounds dear: fewer samples, so many times fewer rounds, and no tau with the longest local solves.
LARGE, SHORTER = {"mnist": {"rows": 1000}}, {"mnist": 10}
SKIPPED = {("mnist", PARTIAL): "tau 0.03,", ("mnist", LOCAL): ("tau 0.001,", "tau 0.003,")}


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 2, "rounds": 20}
    experiment = Experiment("convergence", __doc__, arguments, datasets=DATASETS, quick=quick)
    datasets, seeds, agents, rounds = experiment.datasets, experiment.seeds, experiment.agents, experiment.rounds
    grid = (
        GRID if not experiment.quick else {solver: dict(list(settings.items())[-5:][:2]) for solver, settings in GRID.items()}
    )
    cases = {(data, seed): experiment.case(data, agents, seed, **LARGE.get(data, {})) for data in datasets for seed in seeds}

    def run(data, solver, setting, seed):
        settings = {"dataset": data, "solver": solver, "setting": setting, "agents": agents, "seed": seed}
        exchanges = max(1, rounds // SHORTER.get(data, 1)) * {PARTIAL: 1, LOCAL: 1, ADAPTIVE: ADAPTIVES}.get(solver, MORE)
        if solver in REFERENCES:
            return REFERENCES[solver](settings, cases[data, seed], iterations=exchanges, seed=seed)
        method, net = GRID[solver][setting], graph(agents, seed)
        amount = {"rounds": exchanges, "exchanges": exchanges, "records": exchanges if solver == ADAPTIVE else RECORDS}
        return training(settings, cases[data, seed], net, method, **amount, seed=seed)

    trials = seeds[:TRIALS]
    wanted = [(data, solver, "", seed) for data in datasets for solver in REFERENCES for seed in seeds]
    tried = [(data, solver, setting) for data in datasets for solver in grid for setting in grid[solver]]
    tried = [which for which in tried if not which[2].startswith(SKIPPED.get(which[:2], "none"))]
    wanted += [(*which, seed) for which in tried for seed in trials]
    found = experiment.run({key: run(*key) for key in wanted}, "choice of settings")
    best = {(data, solver): choose(found, data, solver, trials) for data in datasets for solver in (*grid, *REFERENCES)}
    wanted = [(*which, setting, seed) for which, setting in best.items() for seed in seeds]
    found |= experiment.run({key: run(*key) for key in wanted}, "repeats")

    for name, quantity in (("figure", "objective"), ("stationarity", "stationarity"), ("test-error", "test_error")):
        experiment.figure(figure(found, best, datasets, seeds, quantity), name)
    experiment.table(table(found, best, seeds))
    experiment.table(ratios(found, best, datasets, seeds), "ratios")


def choose(found, data, solver, seeds):
    """The setting that needs the fewest exchanges to the last level; where none gets there, that with the lowest objective."""

    def worst(setting):
        outcomes = [found[data, solver, setting, seed] for seed in seeds]
        counts = [exchanges_to(done, level_of(found, data, s, LEVELS[-1])) for done, s in zip(outcomes, seeds, strict=True)]
        return max(counts), last(outcomes, "objective").high

    return min(dict.fromkeys(key[2] for key in found if key[:2] == (data, solver)), key=worst)


def level_of(found, data, seed, part):
    """The objective where only ``part`` is left of the gap between the start and the lowest that any run came to.

    Those of AdaptiveNEXT do not count: it ends in other, often lower, minima, and would make the level one of its own.
    """
    runs = [outcome for key, outcome in found.items() if (key[0], key[3]) == (data, seed) and key[1] != ADAPTIVE]
    objectives = [outcome.history["objective"] for outcome in runs]
    lowest = min(np.nanmin(values) for values in objectives)
    return lowest + part * (objectives[0][0] - lowest)


def exchanges_to(outcome, level, column="exchanges"):
    """Exchanges (or another column) after which the objective stays at or below ``level``; infinite if it never does."""
    above = np.flatnonzero(~(outcome.history["objective"] <= level))
    after = above[-1] + 1 if len(above) else 0
    return math.inf if outcome.diverged or after == outcome.history.rows else float(outcome.history[column][after])


def needed(found, best, data, solver, seeds, part=LEVELS[-1]):
    """What ``solver`` needs in each repeat."""
    return [exchanges_to(found[data, solver, best[data, solver], s], level_of(found, data, s, part)) for s in seeds]


def figure(found, best, datasets, seeds, quantity):
    canvas, axes = curves.panels(len(datasets))
    for ax, data in zip(axes, datasets, strict=True):
        repeats = {name: [found[data, name, best[data, name], s] for s in seeds] for name in (*GRID, *REFERENCES)}
        ends = [outcome.history[quantity][-1] for outcome in repeats.pop(LBFGS)]
        curves.draw(ax, repeats, quantity)
        if quantity != "stationarity":  # of L-BFGS, next to none
            ax.axhline(np.median(ends), color="0.6", linewidth=3, zorder=0.5, label=f"{LBFGS}, at its end")
        ax.set_title(data)
    curves.legend(canvas, axes[0])
    return canvas


def table(found, best, seeds):
    levels = {f"exchanges to {part:.0%} of the gap": ".0f" for part in LEVELS}
    rows = Table({"data set": "", "solver": "", "setting": "", **levels, "objective": ".3g", "test error": ".3g"})
    for (data, solver), setting in best.items():
        outcomes = [found[data, solver, setting, seed] for seed in seeds]
        counts = [Spread.of(needed(found, best, data, solver, seeds, part)) for part in LEVELS]
        rows.add(data, solver, setting or "–", *counts, last(outcomes, "objective"), last(outcomes, "test_error"))
    return rows


def ratios(found, best, datasets, seeds):
    """How many times the exchanges of NEXT with partial linearization and the network's curvature the others need.

    NaN where that one does not get there: there is nothing to compare with.
    """
    rows = Table({"data set": "", "solver": "", **{f"to {part:.0%} of the gap": ".3g" for part in LEVELS}})
    for data, solver in itertools.product(datasets, [solver for solver in GRID if solver != PARTIAL]):
        cells = []
        for part in LEVELS:
            ours, theirs = (needed(found, best, data, which, seeds, part) for which in (PARTIAL, solver))
            cells.append(Spread.of(math.nan if a == math.inf else b / a for a, b in zip(ours, theirs, strict=True)))
        rows.add(data, solver, *cells)
    return rows


if __name__ == "__main__":
    main()
