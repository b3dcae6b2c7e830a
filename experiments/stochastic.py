"""Batches of 32: the test error against epochs, exchanges, bytes and seconds, of agents with like data or few classes each."""

import matplotlib.pyplot as plt
import numpy as np

import consensus
import topologies
from consensus.solvers import D2, DGD, GTHSGD, AdaptiveNEXT, GradientTracking, QGDSGDm
from experiments.shared.cases import graph
from experiments.shared.curves import after_start, draw, legend, plain
from experiments.shared.harness import Experiment
from experiments.shared.results import training
from experiments.shared.tables import Spread, Table, last

SHARED_OUT = {"sorted": "few classes each", "iid": "like data"}
BATCH, HIDDEN, DECAY = 32, 64, consensus.L2(1e-4)
METHODS = {  # with the best of some steps; and for how many of the rounds
    "D-PSGD": (DGD(0.1, batch=BATCH), 1.0),
    "D2": (D2(0.05, batch=BATCH), 1.0),
    "QG-DSGDm": (QGDSGDm(0.01, batch=BATCH), 1.0),
    "tracking": (GradientTracking(0.05, batch=BATCH), 1.0),
    "GT-HSGD": (GTHSGD(0.05, batch=BATCH), 1.0),
    "tracking, all samples": (GradientTracking(0.1), 0.6),
    "AdaptiveNEXT": (AdaptiveNEXT(), 0.1),
}
ACROSS = ("epochs", "exchanges", "bytes", "seconds")
RECORDS = 25
LEVEL = 0.1  # a test error that is worth reaching


def main(arguments=None):
    quick = {"dataset": ["digits"], "repeats": 1, "rounds": 30}
    experiment = Experiment("stochastic", __doc__, arguments, datasets=["mnist"], repeats=3, rounds=500, quick=quick)
    agents, datasets = experiment.agents, experiment.datasets
    places = [(data, scheme) for data in datasets for scheme in SHARED_OUT]
    cases = {
        (data, scheme, seed): experiment.case(data, agents, seed, hidden=HIDDEN, regularizer=DECAY, scheme=scheme)
        for data, scheme in places
        for seed in experiment.seeds
    }

    def run(curve, seed):
        data, scheme, name = curve
        settings = {"dataset": data, "shards": scheme, "solver": name, "agents": agents, "seed": seed}
        network = topologies.Static(graph(agents, seed), weights=topologies.lazy(topologies.metropolis))  # as D2 asks
        solver, part = METHODS[name]
        rounds = max(1, round(part * experiment.rounds))
        return training(settings, cases[data, scheme, seed], network, solver, rounds=rounds, seed=seed, records=RECORDS)

    found = experiment.repeat(run, [(*place, name) for place in places for name in METHODS])
    experiment.figure(figure(found, places))
    experiment.table(table(found))


def figure(found, places):
    canvas, axes = plt.subplots(
        len(places), len(ACROSS), figsize=(9.6, 2.5 * len(places) + 0.5), layout="constrained", sharey="row", squeeze=False
    )
    for row, (data, scheme) in zip(axes, places, strict=True):
        for ax, across in zip(row, ACROSS, strict=True):
            draw(ax, {name: after_start(found[data, scheme, name]) for name in METHODS}, "test_error_worst", across)
            ax.autoscale(axis="x")
            plain(ax.xaxis)
        row[0].set_title(f"{data}, {SHARED_OUT[scheme]}", loc="left")
    canvas.align_xlabels()
    legend(canvas, axes[0, 0], columns=4)
    return canvas


def table(found):
    """At the end, and what is needed until the worst agent's test error stays below the level."""
    needs = {
        f"{name} to {1 - LEVEL:.0%} everywhere": form for name, form in (("epochs", ".3g"), ("MB", ".3g"), ("seconds", ".2g"))
    }
    rows = Table({"data set": "", "shards": "", "solver": "", "test error": ".3g", "at the worst agent": ".3g", **needs})
    for (data, scheme, name), outcomes in found.items():
        needed = [Spread.of(reached(outcome, column) for outcome in outcomes) for column in ("epochs", "bytes", "seconds")]
        needed[1] = Spread(*(value / 1e6 for value in needed[1]))
        errors = [last(outcomes, column) for column in ("test_error", "test_error_worst")]
        rows.add(data, SHARED_OUT[scheme], name, *errors, *needed)
    return rows


def reached(outcome, column):
    """The column's value from where on the worst agent's test error is at most the level; infinite where it never is."""
    if outcome.diverged:
        return np.inf
    there = outcome.history["test_error_worst"] <= LEVEL
    first = len(there) - int(np.argmin(np.append(there[::-1], False)))
    return float(outcome.history[column][first]) if first < len(there) else np.inf


if __name__ == "__main__":
    main()
