"""Every solver there is, on three problems: exchanges, bytes, gradients and seconds until the objective is low; their ranks."""

import contextlib
import math
import warnings

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus import plotting
from consensus.solvers import check_needs
from experiments.shared.cases import graph
from experiments.shared.curves import legend
from experiments.shared.harness import Experiment
from experiments.shared.levels import Merits
from experiments.shared.methods import ADAPTIVE, DEAR, methods
from experiments.shared.results import RECORDS
from experiments.shared.tables import Spread, Table, setting

# What is learnt, and the part of the gap between start and optimum that is left in the end.
PROBLEMS = {
    "linear, L2": ({"hidden": 0, "regularizer": consensus.L2(1e-2)}, 1e-4),
    "linear, L1": ({"hidden": 0, "regularizer": consensus.L1(1e-2)}, 1e-4),
    "network, L2": ({}, 1e-2),
}
MEASURES = {"exchanges": ("exchanges", 1), "kB": ("bytes", 1e3), "gradients": ("gradients", 1), "seconds": ("seconds", 1)}
FORMATS = {"exchanges": ".0f", "kB": ".3g", "gradients": ".3g", "seconds": ".2g"}
FEWEST = "exchanges to the level"  # by which settings are chosen
MORE = 10  # exchanges of methods whose rounds are cheap, for one of the others


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 1, "rounds": 10}
    experiment = Experiment("solvers", __doc__, arguments, datasets=["boston"], repeats=3, rounds=200, quick=quick)
    seeds, agents = experiment.seeds, experiment.agents

    def case(data, name, seed):
        return experiment.case(data, agents, seed, **PROBLEMS[name][0])

    families = {
        (data, name, solver): some
        for data in experiment.datasets
        for name in PROBLEMS
        for solver, some in fitting(case(data, name, seeds[0]).problem, graph(agents, seeds[0])).items()
    }

    def run(data, name, solver, method, seed):
        # A default is that of the first repeat's problem: one setting for all.
        method = method.prepared(case(data, name, seeds[0]).problem, topologies.Static(graph(agents, seeds[0])))
        exchanges = experiment.rounds * (3 if "3" in solver else 1 if solver in DEAR else MORE)
        amount = {"rounds": exchanges, "exchanges": exchanges, "records": exchanges if solver == ADAPTIVE else RECORDS}
        return case(data, name, seed), graph(agents, seed), method, amount

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*theory")  # the convex ones meet a network, too: the table says which
        found = experiment.compare(("dataset", "problem", "solver"), families, run, MERITS)
    needs = needed(found.every, found.repeats, seeds)
    experiment.figure(figure(needs))
    experiment.table(table(needs, {which[:3]: setting(runs) for which, runs in found.repeats.items()}))
    experiment.table(ranks(needs), "ranks")


def fitting(problem, network):
    """``{solver: [Family, ...]}`` of those that the problem and the network do not refuse."""
    schedule, found = topologies.Static(network), {}
    for name, families in methods(problem).items():
        for family in families:
            with contextlib.suppress(TypeError, ValueError), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what is beyond a method's theory runs, too
                solver = family.make(*family.start()[0])
                check_needs(solver, problem, schedule)
                solver.prepared(problem, schedule)
                found.setdefault(name, []).append(family)
    return found


def sets_levels(key):
    """Return whether a run's objective sets a level: AdaptiveNEXT's does not on networks, where it ends in other minima."""
    return key[2] != ADAPTIVE or "linear" in key[1]


MERITS = Merits(lambda key: key[:2], lambda place: {FEWEST: PROBLEMS[place[1]][1]}, sets_levels)


def needed(every, repeats, seeds):
    """``{measure: Spread}`` by solver: what is needed until the objective stays low."""
    found = {}
    for measure, (column, unit) in MEASURES.items():
        for which, values in MERITS.needed(every, repeats, seeds, column).items():
            found.setdefault(which[:3], {})[measure] = Spread.of(value / unit for value in values)
    return found


def ranked(needs):
    """``{solver: {measure: rank}}``, the mean over the problems that a solver takes; ``"in all"``, over the measures, too.

    A rank is the part of the other solvers that do better, from 0 for the best to 1; it is 1 for those that never get there.
    """
    ranks = {}
    for at in dict.fromkeys(which[:2] for which in needs):
        there = {which[2]: found for which, found in needs.items() if which[:2] == at}
        for measure in MEASURES:
            values = {solver: found[measure].middle for solver, found in there.items()}
            for solver, value in values.items():
                better = sum(other < value for other in values.values())
                rank = better / max(1, len(values) - 1) if math.isfinite(value) else 1.0
                ranks.setdefault(solver, {}).setdefault(measure, []).append(rank)
    means = {solver: {measure: float(np.mean(parts)) for measure, parts in own.items()} for solver, own in ranks.items()}
    means = {solver: own | {"in all": float(np.mean(list(own.values())))} for solver, own in means.items()}
    return dict(sorted(means.items(), key=lambda item: item[1]["in all"]))


def figure(needs):
    """A row a solver, the best in all on top, a panel a measure; at the right end those that never got there."""
    order = list(ranked(needs))
    places = list(dict.fromkeys(which[:2] for which in needs))
    several = len({data for data, _ in places}) > 1
    canvas, axes = plt.subplots(1, len(MEASURES), figsize=(8.3, 1.2 + 0.2 * len(order)), sharey=True, layout="constrained")
    for ax, measure in zip(axes, MEASURES, strict=True):
        known = [found[measure].middle for found in needs.values() if math.isfinite(found[measure].middle)]
        never = 3 * max(known, default=1.0)
        for index, at in enumerate(places):
            there = {solver: needs[*at, solver][measure].middle for solver in order if (*at, solver) in needs}
            x = [value if math.isfinite(value) else never for value in there.values()]
            y = [order.index(solver) + 0.22 * (index - (len(places) - 1) / 2) for solver in there]
            label = f"{at[0]}: {at[1]}" if several else at[1]
            style = {"marker": plotting.MARKERS[index], "color": plotting.COLORS[index]}
            ax.scatter(x, y, s=14, label=label, zorder=3, **style)
        ax.set_xscale("log")
        ax.axvspan(never / 1.6, never * 1.6, color="0.92", zorder=0)
        above = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "bottom"}
        ax.text(never, 1.003, "never", fontsize=7, color="0.35", **above)
        ax.set_xlabel(measure)
        ax.grid(True, color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
    axes[0].set_yticks(range(len(order)), order)
    axes[0].set_ylim(len(order) - 0.4, -0.6)
    legend(canvas, axes[0], columns=len(places))
    return canvas


def table(needs, best):
    rows = Table({"data set": "", "problem": "", "solver": "", "setting": "", **FORMATS})
    order = list(ranked(needs))
    for which in sorted(needs, key=lambda which: (list(PROBLEMS).index(which[1]), order.index(which[2]))):
        rows.add(*which, best[which], *needs[which].values())
    return rows


def ranks(needs):
    rows = Table({"solver": "", **dict.fromkeys((*MEASURES, "in all"), ".2f"), "problems": ".0f"})
    for solver, means in ranked(needs).items():
        rows.add(solver, *means.values(), float(sum(which[2] == solver for which in needs)))
    return rows


if __name__ == "__main__":
    main()
