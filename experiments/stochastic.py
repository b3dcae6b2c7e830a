"""Batches of 32: the test error against epochs, exchanges, bytes and seconds, of agents with like data or few classes each."""

import itertools

import matplotlib.pyplot as plt

import consensus
import topologies
from consensus.solvers import D2, DGD, GTHSGD, AdaptiveNEXT, GradientTracking, QGDSGDm
from consensus.step_sizes import CosineAnnealing
from experiments.shared.cases import graph
from experiments.shared.curves import after_start, draw, legend, plain
from experiments.shared.harness import Experiment
from experiments.shared.levels import exchanges_to
from experiments.shared.tables import Spread, Table, last, setting
from experiments.shared.tuning import Axis, Family

SHARED_OUT = {"sorted": "few classes each", "iid": "like data"}
BATCH, HIDDEN, DECAY = 32, 64, consensus.L2(1e-4)
PARTS = {"tracking, all samples": 0.2, "AdaptiveNEXT": 0.1}  # of the rounds, where a round is a pass over the data
ACROSS = ("epochs", "exchanges", "bytes", "seconds")
RECORDS, OFTEN = 25, 50  # rows of a history, and of one with a pass or more a round
LEVEL = 0.1  # a test error that is worth reaching
NEEDED, END = f"epochs to {1 - LEVEL:.0%}", "error at the end"  # the measures by which settings are chosen


def methods(rounds):
    """``{name: [Family, ...]}``: steps are constant; those of D-PSGD also fall to zero along a cosine over the rounds."""
    kept, beta = Axis("1 - momentum", (0.1,), most=1.0), Axis("beta", (0.1,), most=1.0)
    return {
        "D-PSGD": [Family(lambda step: DGD(step, batch=BATCH), (Axis("step", (0.1, 0.4, 1.6)),))],
        "D-PSGD, falling step": [
            Family(lambda step: DGD(CosineAnnealing(step, rounds), batch=BATCH), (Axis("first step", (0.1, 0.4, 1.6)),))
        ],
        "D2": [Family(lambda step: D2(step, batch=BATCH), (Axis("step", (0.1, 0.4)),))],
        "QG-DSGDm": [
            Family(lambda step, kept: QGDSGDm(step, batch=BATCH, momentum=1 - kept), (Axis("step", (0.02, 0.08)), kept))
        ],
        "tracking": [Family(lambda step: GradientTracking(step, batch=BATCH), (Axis("step", (0.1, 0.4)),))],
        "GT-HSGD": [Family(lambda step, beta: GTHSGD(step, batch=BATCH, beta=beta), (Axis("step", (0.05, 0.2)), beta))],
        "tracking, all samples": [Family(GradientTracking, (Axis("step", (0.5, 2.0)),))],
        "AdaptiveNEXT": [Family(AdaptiveNEXT)],
    }


def main(arguments=None):
    quick = {"dataset": ["digits"], "repeats": 1, "rounds": 30}
    experiment = Experiment("stochastic", __doc__, arguments, datasets=["mnist"], repeats=3, rounds=500, quick=quick)
    agents = experiment.agents
    places = list(itertools.product(experiment.datasets, SHARED_OUT))
    names = methods(experiment.rounds)

    def run(data, scheme, name, solver, seed):
        case = experiment.case(data, agents, seed, hidden=HIDDEN, regularizer=DECAY, scheme=scheme)
        network = topologies.Static(graph(agents, seed), weights=topologies.lazy(topologies.metropolis))  # as D2 asks
        amount = {"rounds": max(1, round(PARTS.get(name, 1.0) * experiment.rounds))}
        return case, network, solver, amount | {"records": OFTEN if name in PARTS else RECORDS}

    families = {(*place, name): names[name] for place in places for name in names}
    found = experiment.compare(("dataset", "shards", "solver"), families, run, merits)
    experiment.figure(figure(found.repeats, places, names))
    experiment.table(table(found.repeats))


def merits(found, key, outcomes):
    """Return the worst agent's costs to the level, ties broken by the error at the end; and that error."""
    end = last(outcomes, "test_error_worst").middle
    return {NEEDED: (reached(outcomes[0], "epochs"), end), END: end}


def figure(repeats, places, names):
    canvas, axes = plt.subplots(
        len(places), len(ACROSS), figsize=(9.6, 2.5 * len(places) + 0.5), layout="constrained", sharey="row", squeeze=False
    )
    for row, (data, scheme) in zip(axes, places, strict=True):
        for ax, across in zip(row, ACROSS, strict=True):
            draw(ax, {name: after_start(repeats[data, scheme, name, NEEDED]) for name in names}, "test_error_worst", across)
            ax.autoscale(axis="x")
            plain(ax.xaxis)
        row[0].set_title(f"{data}, {SHARED_OUT[scheme]}", loc="left")
    canvas.align_xlabels()
    legend(canvas, axes[0, 0], columns=4)
    return canvas


def table(repeats):
    """At the end, with the setting that is best there; and what is needed until the worst agent's test error stays at the
    level, with the setting that needs the fewest epochs, which are as many bytes and seconds times a constant.
    """
    ends = {"setting by error": "", "test error": ".3g", "at the worst agent": ".3g"}
    needs = {f"setting by {NEEDED}": "", NEEDED: ".3g", "GB": ".3g", "seconds": ".2g"}
    rows = Table({"data set": "", "shards": "", "solver": "", **ends, **needs})
    for data, scheme, name in dict.fromkeys(which[:3] for which in repeats):
        at_end, to_level = ((data, scheme, name, measure) for measure in (END, NEEDED))
        needed = [
            Spread.of(reached(outcome, column) / unit for outcome in repeats[to_level])
            for column, unit in (("epochs", 1), ("bytes", 1e9), ("seconds", 1))
        ]
        errors = [last(repeats[at_end], column) for column in ("test_error", "test_error_worst")]
        rows.add(data, SHARED_OUT[scheme], name, setting(repeats[at_end]), *errors, setting(repeats[to_level]), *needed)
    return rows


def reached(outcome, column):
    """The column's value from where on the worst agent's test error is at most the level; infinite where it never is."""
    return exchanges_to(outcome, LEVEL, column, "test_error_worst")


if __name__ == "__main__":
    main()
