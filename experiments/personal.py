"""Agents of several kinds with few samples each: models of their own, coupled; a shared body with own heads; one model."""

import functools

import numpy as np

import consensus
import topologies
from consensus.plotting import COLORS, DASHES, MARKERS
from consensus.solvers import GradientTracking, Personalized, SharedBody
from consensus.studies import Study
from experiments.shared import cases
from experiments.shared.curves import legend, panels, ticks
from experiments.shared.studies import options, ran

KINDS, ACROSS = 3, 0.02  # kinds of agents; the weight of a pair of two kinds, where one of the same kind has 1
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
SIZES, MIDDLE = [15, 30, 60], 30  # training samples of an agent; those in the panel by strength
HIDDEN, DECAY, TESTED = 12, consensus.L2(1e-3), 60  # units; weight decay; test samples of an agent
TICKS = (0.05, 0.1, 0.2, 0.4, 0.8)  # of errors
COUPLED, ALONE, ONE, BODY = "own models, coupled", "own models, alone", "one model", "shared body, own heads"
BY_STRENGTH = [f"{COUPLED}, l = {strength:g}" for strength in STRENGTHS]
COLUMNS = ("test_error", "test_error_worst", "objective", "stationarity", "bytes")  # of which the last values are shown


def case(seed, samples, agents):
    """Digits, with a test set for each agent; agents of kind k call class c what the first ones call c + k."""
    whole = cases.case("digits", 1, seed, hidden=HIDDEN)
    problem, (X, y) = whole.problem, whole.test
    X = np.concatenate([problem.shards.features[0], X])
    y = np.concatenate([problem.shards.targets[0, :, 0], np.ravel(y)])
    rows = np.arange(agents * (SIZES[-1] + TESTED)).reshape(agents, -1)
    parts = [(X[own], (y[own] + k % KINDS) % problem.model.outputs) for k, own in enumerate(rows)]
    train, test = (
        consensus.Shards.from_list([(X[part], y[part]) for X, y in parts])
        for part in (np.s_[TESTED : TESTED + samples], np.s_[:TESTED])
    )
    return consensus.Problem(problem.model, problem.loss, train, DECAY), topologies.complete(agents), {"test": test}


def study(folder, column, agents, rounds, seeds):
    """The ends of runs in a column of their histories."""
    kinds = np.arange(agents) % KINDS
    similar = np.where(kinds[:, None] == kinds, 1.0, ACROSS)
    strengths = dict(zip([*BY_STRENGTH, ALONE], [*STRENGTHS, 0.0], strict=True))
    solvers = {name: Personalized(similar, strength) for name, strength in strengths.items()}
    solvers |= {ONE: GradientTracking(), BODY: SharedBody(GradientTracking(), own="1")}
    usual = {"over": {"samples": SIZES}, "seeds": seeds, "rounds": rounds, "folder": folder}
    return Study(functools.partial(case, agents=agents), solvers=solvers, measure=f"{column} after {rounds} round", **usual)


def main(arguments=None):
    quick = {"agents": 6, "rounds": 30, "seeds": 1}
    given = options(__doc__, arguments, quick, agents=12, rounds=3000, seeds=5)
    for column in COLUMNS:
        found = ran(study(given.output / "personal", column, given.agents, given.rounds, given.seeds), given.workers)
        print(found.table("median [range]").to_markdown(), end="\n\n")
        if column == "test_error":
            figure(found.values()["value"]).savefig(given.output / "personal.png", dpi=150)


def figure(errors):
    """The test errors by strength and by samples; the best strength is one that flatters, marked as such."""
    spreads = errors.groupby(["samples", "solver"], sort=False).agg(["median", "min", "max"])
    best = [(size, spreads.loc[size].loc[BY_STRENGTH, "median"].idxmin()) for size in SIZES]
    canvas, (left, right) = panels(2, columns=2, size=(3.4, 2.7), share=True)
    drawn(left, STRENGTHS, spreads.loc[[(MIDDLE, name) for name in BY_STRENGTH]], COUPLED, 0)
    drawn(right, SIZES, spreads.loc[best], COUPLED, 0)
    for index, name in enumerate((ALONE, BODY, ONE), 1):
        drawn(left, (STRENGTHS[0], STRENGTHS[-1]), spreads.loc[[(MIDDLE, name)] * 2], name, index)
        drawn(right, SIZES, spreads.loc[[(size, name) for size in SIZES]], name, index)
    left.set(title=f"{MIDDLE} samples an agent", xlabel="strength l of the coupling", ylabel="error on the agents' own tests")
    right.set(title="best l for each number of samples", xlabel="training samples of an agent")
    for ax in (left, right):
        ax.set(xscale="log", yscale="log")
        ax.set_yticks(TICKS, map(str, TICKS))
    ticks(right.xaxis, SIZES)
    legend(canvas, left, columns=4)
    return canvas


def drawn(ax, x, spreads, name, index):
    """A line through medians, in a band from the smallest to the largest of the repeats."""
    style = {"color": COLORS[index], "linestyle": DASHES[index], "marker": MARKERS[index], "markersize": 4}
    ax.plot(x, spreads["median"], label=name, **style)
    ax.fill_between(x, spreads["min"], spreads["max"], color=COLORS[index], alpha=0.15, linewidth=0)
    ax.grid(True, color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)


if __name__ == "__main__":
    main()
