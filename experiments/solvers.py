"""Every solver there is, on three problems: exchanges, bytes, gradients and seconds until the objective is low; their ranks."""

import contextlib
import functools
import itertools
import math
import warnings

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus import plotting
from consensus.solvers import check_needs
from consensus.studies import Grid
from experiments.shared import cases
from experiments.shared.centralised import reference_of
from experiments.shared.curves import legend
from experiments.shared.methods import DEAR, MORE, compared, methods, needed, shown
from experiments.shared.studies import Folder, options
from experiments.shared.tables import Spread, Table

# What is learnt, and the part of the gap between start and optimum that is left in the end.
PROBLEMS = {
    "linear, L2": ({"hidden": 0, "regularizer": consensus.L2(1e-2)}, 1e-4),
    "linear, L1": ({"hidden": 0, "regularizer": consensus.L1(1e-2)}, 1e-4),
    "network, L2": ({}, 1e-2),
}
MEASURES = {"exchanges": ("exchanges", 1), "kB": ("bytes", 1e3), "gradients": ("gradients", 1), "seconds": ("seconds", 1)}
FORMATS = {"exchanges": ".0f", "kB": ".3g", "gradients": ".3g", "seconds": ".2g"}


def case(seed, data, problem, agents, exchanges):
    whole = cases.case(data, agents, seed, **PROBLEMS[problem][0])
    return whole.problem, cases.graph(agents, seed), {"exchanges": exchanges, "record_every": 1}


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "seeds": 1, "rounds": 10}
    given = options(__doc__, arguments, quick, dataset=["boston"], agents=10, seeds=3, rounds=200)
    folder, needs, best, grids = Folder(given, "solvers"), {}, {}, {}
    for data, name in itertools.product(given.dataset, PROBLEMS):
        part, own = PROBLEMS[name][1], {}
        for solver, one in fitting(*case(0, data, name, given.agents, 1)[:2]).items():
            own.setdefault(3 if "3" in solver else 1 if solver in DEAR else MORE, {})[solver] = one
        over, measure = {"data": [data], "problem": [name]}, f"exchanges to objective {100 * part:g}%"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*theory")  # the convex ones meet a network, too: the table says which
            found, tried = compared(given, folder / data / name, case, over, own, measure, agents=given.agents)
        grids[f"{data}, {name}"] = tried
        made = (functools.partial(case, seed, data, name, given.agents, 1) for seed in range(given.seeds))
        lowest = [folder.kept(reference_of)(one) for one in made]
        needs |= {at: spent(runs, lowest, part) for at, runs in found.items()}
        best |= {at: shown(runs) for at, runs in found.items()}
    folder.figure(figure(needs))
    folder.table(table(needs, best))
    folder.table(ranks(needs), "ranks")
    folder.grids(grids)


def fitting(problem, network):
    """``{name: solver or grid}`` of those that the problem and the network do not refuse."""
    schedule, found = topologies.Static(network), {}
    for name, one in methods(problem).items():
        with contextlib.suppress(TypeError, ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is beyond a method's theory runs, too
            solver = one.solver(one.points()[0]) if isinstance(one, Grid) else one
            check_needs(solver, problem, schedule)
            solver.prepared(problem, schedule)
            found[name] = one
    return found


def spent(runs, lowest, part):
    """``{measure: Spread}``: what is needed until the objective stays low."""
    pairs = list(zip(runs, lowest, strict=True))
    return {
        measure: Spread.of(needed(*pair, part, column) / unit for pair in pairs) for measure, (column, unit) in MEASURES.items()
    }


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
            y = [order.index(solver) + 0.66 * ((index + 0.5) / len(places) - 0.5) for solver in there]
            label = f"{at[0]}: {at[1]}" if several else at[1]
            marks, colours = plotting.MARKERS, plotting.COLORS
            style = {"marker": marks[index % len(marks)], "color": colours[index % len(colours)]}
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
