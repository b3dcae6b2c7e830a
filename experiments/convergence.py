"""NEXT, gradient tracking and DGD on six data sets: the exchanges that each needs for the same objective."""

import functools
import itertools
import math

import numpy as np

from consensus.solvers import DGD, NEXT, AdaptiveNEXT, GradientTracking
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization
from experiments.shared import curves, methods
from experiments.shared import references as centralised
from experiments.shared.cases import graph
from experiments.shared.harness import Experiment
from experiments.shared.levels import Merits
from experiments.shared.results import RECORDS
from experiments.shared.tables import Spread, Table, last, setting
from experiments.shared.tuning import Axis, Family

DATASETS = ("boston", "kin8nm", "wine", "diabetes", "breast_cancer", "mnist")
PARTIAL, LOCAL = "NEXT, partial, network curvature", "NEXT, partial, local curvature"  # the second is that of the 2017 paper
FULL, TRACKING, ADAPTIVE = "NEXT, full linearization", "gradient tracking", "AdaptiveNEXT"
SLOWER = 0.001  # how the steps of cheap solvers fall, over ten times as many rounds as those of NEXT
STEP = Axis("step", (0.2, 0.4, 0.8))
FAMILIES = {  # every solver runs with the best settings of these on each data set
    PARTIAL: methods.APPROXIMATIONS["NEXT, partial"],
    LOCAL: methods.APPROXIMATIONS["NEXT, partial, local curvature"],
    FULL: methods.grids(lambda tau, step: NEXT(FullLinearization(tau), step), (0.3, 1.0), (0.3, 0.6), SLOWER),
    TRACKING: [
        Family(GradientTracking, (STEP,), "adapt then combine"),
        Family(functools.partial(GradientTracking, order="cta"), (STEP,), "combine then adapt"),
    ],
    "DGD": [
        Family(DGD, (STEP,), "constant"),
        Family(lambda step: DGD(Diminishing(step, SLOWER)), (Axis("first step", (0.4, 0.8)),), "falling"),
    ],
    ADAPTIVE: [Family(AdaptiveNEXT)],
}
LBFGS, DESCENT = "L-BFGS, centralised", "gradient descent, centralised"
REFERENCES = {LBFGS: centralised.lbfgs, DESCENT: centralised.gradient_descent}
LEVELS = {
    f"exchanges to {part:.0%} of the gap": part for part in (0.1, 0.03, 0.01)
}  # what is measured, each at its best setting
ENDS = list(LEVELS)[-1]  # the measure whose settings the figures show
MERITS = Merits(lambda key: key[:1], lambda place: LEVELS, lambda key: key[1] != ADAPTIVE)  # that one ends in other minima
TRIALS = 3  # repeats on which settings are tried; the one whose worst of them is best is taken for all
MORE, ADAPTIVES = 10, 3  # exchanges of the other solvers, whose rounds are cheap, for one of it; of AdaptiveNEXT
# Where 15,910 parameters make rounds dear: fewer samples, so many times fewer rounds, in which no step would fall.
LARGE, SHORTER = {"mnist": {"rows": 1000}}, {"mnist": 10}
SKIPPED = {("mnist", PARTIAL, "falling"), ("mnist", LOCAL, "falling")}


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 2, "rounds": 20}
    experiment = Experiment("convergence", __doc__, arguments, datasets=DATASETS, quick=quick)
    datasets = experiment.datasets
    solvers = FAMILIES | {name: [Family(lambda reference=reference: reference)] for name, reference in REFERENCES.items()}
    families = {
        (data, name): [family for family in some if (data, name, family.label) not in SKIPPED]
        for data in datasets
        for name, some in solvers.items()
    }

    def run(data, name, solver, seed):
        rounds = max(1, experiment.rounds // SHORTER.get(data, 1))
        exchanges = rounds * {PARTIAL: 1, LOCAL: 1, ADAPTIVE: ADAPTIVES}.get(name, MORE)
        case = experiment.case(data, experiment.agents, seed, **LARGE.get(data, {}))
        if name in REFERENCES:
            return case, None, solver, {"rounds": exchanges}
        amount = {"rounds": exchanges, "exchanges": exchanges, "records": exchanges if name == ADAPTIVE else RECORDS}
        return case, graph(experiment.agents, seed), solver, amount

    found = experiment.compare(("dataset", "solver"), families, run, MERITS, TRIALS)
    needs = MERITS.needed(found.every, found.repeats, experiment.seeds)
    ends = {which[:2]: runs for which, runs in found.repeats.items() if which[2] == ENDS}
    for name, quantity in (("figure", "objective"), ("stationarity", "stationarity"), ("test-error", "test_error")):
        experiment.figure(figure(ends, datasets, quantity), name)
    experiment.table(table(needs, ends))
    experiment.table(ratios(needs, datasets), "ratios")


def figure(ends, datasets, quantity):
    canvas, axes = curves.panels(len(datasets))
    for ax, data in zip(axes, datasets, strict=True):
        repeats = {solver: ends[data, solver] for solver in (*FAMILIES, *REFERENCES)}
        last_ones = [outcome.history[quantity][-1] for outcome in repeats.pop(LBFGS)]
        curves.draw(ax, repeats, quantity)
        start = max(outcome.history[quantity][0] for runs in repeats.values() for outcome in runs)
        ax.set_ylim(top=min(ax.get_ylim()[1], 1.5 * start))  # a repeat that rises above its start leaves the panel
        if quantity != "stationarity":  # of L-BFGS, next to none
            ax.axhline(np.median(last_ones), color="0.6", linewidth=3, zorder=0.5, label=f"{LBFGS}, at its end")
        ax.set_title(data)
    curves.legend(canvas, axes[0])
    return canvas


def table(needs, ends):
    """The setting, the objective and the test error are those of the last level."""
    rows = Table(
        {"data set": "", "solver": "", "setting": "", **dict.fromkeys(LEVELS, ".0f"), "objective": ".3g", "test error": ".3g"}
    )
    for pair, outcomes in ends.items():
        counts = [Spread.of(needs[*pair, name]) for name in LEVELS]
        rows.add(*pair, setting(outcomes), *counts, last(outcomes, "objective"), last(outcomes, "test_error"))
    return rows


def ratios(needs, datasets):
    """Return the exchanges of the others, as multiples of those of NEXT with partial linearization and the network's curvature.

    NaN where that one does not get there: there is nothing to compare with.
    """
    rows = Table({"data set": "", "solver": "", **{f"to {part:.0%} of the gap": ".3g" for part in LEVELS.values()}})
    for data, solver in itertools.product(datasets, [solver for solver in FAMILIES if solver != PARTIAL]):
        pairs = [zip(needs[data, PARTIAL, name], needs[data, solver, name], strict=True) for name in LEVELS]
        rows.add(data, solver, *(Spread.of(math.nan if a == math.inf else b / a for a, b in pair) for pair in pairs))
    return rows


if __name__ == "__main__":
    main()
