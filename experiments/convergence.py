"""NEXT, gradient tracking and DGD on six data sets: the exchanges that each needs for the same objective."""

import functools
import itertools
import math

import numpy as np

from consensus.solvers import DGD, NEXT, AdaptiveNEXT, GradientTracking
from consensus.step_sizes import Diminishing
from consensus.studies import Grid
from consensus.surrogates import FullLinearization
from experiments.shared import cases, centralised, curves, methods
from experiments.shared.studies import Folder, options
from experiments.shared.tables import Spread, Table, last

DATASETS = ["boston", "kin8nm", "wine", "diabetes", "breast_cancer", "mnist"]
PARTIAL, LOCAL = "NEXT, partial, network curvature", "NEXT, partial, local curvature"  # the second is that of the 2017 paper
FULL, TRACKING, ADAPTIVE = "NEXT, full linearization", "gradient tracking", "AdaptiveNEXT"
SLOWER = 0.001  # how the steps of cheap solvers fall, over ten times as many rounds as those of NEXT


def descent(step_size, decay):
    return DGD(Diminishing(step_size, decay) if decay else step_size)


ADAPTIVES = 3  # exchanges of AdaptiveNEXT for one of NEXT
SOLVERS = {  # by their exchanges; every solver has the best settings of its grid on each data set
    1: {PARTIAL: methods.APPROXIMATIONS["NEXT, partial"], LOCAL: methods.APPROXIMATIONS["NEXT, partial, local curvature"]},
    methods.MORE: {
        FULL: methods.grid(lambda tau, step: NEXT(FullLinearization(tau), step), (0.3, 1.0), decay=SLOWER),
        TRACKING: Grid(GradientTracking, step_size=[0.2, 0.4, 0.8], order=["atc", "cta"]),
        "DGD": Grid(descent, step_size=[0.2, 0.4, 0.8], decay=[0.0, SLOWER]),
    },
    ADAPTIVES: {ADAPTIVE: AdaptiveNEXT()},
}
NAMES = list(itertools.chain(*SOLVERS.values()))
LBFGS, DESCENT = "L-BFGS, centralised", "gradient descent, centralised"
REFERENCES = {LBFGS: centralised.lbfgs, DESCENT: centralised.gradient_descent}
LEVELS = {
    f"exchanges to {part:.0%} of the gap": part for part in (0.1, 0.03, 0.01)
}  # what is measured, each at its best setting
ENDS = list(LEVELS)[-1]  # the measure whose settings the figures show
# Where 15,910 parameters make rounds dear: fewer samples, so many times fewer rounds.
LARGE, SHORTER = {"mnist": {"rows": 1000}}, {"mnist": 10}


def case(seed, data, agents, exchanges):
    whole, part = cases.case(data, agents, seed, **LARGE.get(data, {})), SHORTER.get(data, 1)
    amount = {"exchanges": max(1, exchanges // part), "record_every": 1}
    return whole.problem, cases.graph(agents, seed), {"test": whole.test, **amount}


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "seeds": 2, "rounds": 20}
    given = options(__doc__, arguments, quick, dataset=DATASETS, agents=10, seeds=3, rounds=300)
    folder, ends, needs, grids = Folder(given, "convergence"), {}, {}, {}
    descended, lowest = {}, {}
    for data, seed in itertools.product(given.dataset, range(given.seeds)):
        made = functools.partial(case, seed, data, given.agents, methods.MORE * given.rounds)
        lowest.setdefault(data, []).append(folder.kept(centralised.reference_of)(made))
        for name, method in REFERENCES.items():
            descended.setdefault((data, name), []).append(folder.kept(method)(made, made()[2]["exchanges"], seed))
    for level, part in LEVELS.items():
        over, measure = {"data": given.dataset}, f"exchanges to objective {part:.0%}"
        found, tried = methods.compared(given, folder, case, over, SOLVERS, measure, agents=given.agents)
        ends = {(data, name): (found | descended)[data, name] for data in given.dataset for name in (*NAMES, *REFERENCES)}
        for (data, name), runs in ends.items():
            needs[data, name, level] = [methods.needed(*each, part) for each in zip(runs, lowest[data], strict=True)]
        grids[level] = tried
    for name, quantity in (("figure", "objective"), ("stationarity", "stationarity"), ("test-error", "test_error")):
        folder.figure(figure(ends, given.dataset, quantity), name)
    folder.table(table(needs, ends))
    folder.table(ratios(needs, given.dataset), "ratios")
    folder.grids(grids)


def figure(ends, datasets, quantity):
    canvas, axes = curves.panels(len(datasets))
    for ax, data in zip(axes, datasets, strict=True):
        repeats = {solver: ends[data, solver] for solver in (*NAMES, *REFERENCES)}
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
        rows.add(*pair, methods.shown(outcomes), *counts, last(outcomes, "objective"), last(outcomes, "test_error"))
    return rows


def ratios(needs, datasets):
    """Return the exchanges of the others, as multiples of those of NEXT with partial linearization and the network's curvature.

    NaN where that one does not get there: there is nothing to compare with.
    """
    rows = Table({"data set": "", "solver": "", **{f"to {part:.0%} of the gap": ".3g" for part in LEVELS.values()}})
    for data, solver in itertools.product(datasets, [solver for solver in NAMES if solver != PARTIAL]):
        pairs = [zip(needs[data, PARTIAL, name], needs[data, solver, name], strict=True) for name in LEVELS]
        rows.add(data, solver, *(Spread.of(math.nan if a == math.inf else b / a for a, b in pair) for pair in pairs))
    return rows


if __name__ == "__main__":
    main()
