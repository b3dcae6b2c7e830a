"""Batches of 32: the worst agent's test error by epochs, exchanges, bytes and seconds, with like data or few classes each."""

import functools

import consensus
import topologies
from consensus.solvers import D2, DGD, GTHSGD, AdaptiveNEXT, GradientTracking, QGDSGDm
from consensus.step_sizes import CosineAnnealing
from consensus.studies import Grid, Study
from experiments.shared import cases
from experiments.shared.curves import legend, panels, plain
from experiments.shared.studies import draw, histories, options, quartiles, shown, worst_error

SHARDS = {"sorted": "few classes each", "iid": "like data"}
BATCH, HIDDEN, DECAY = 32, 64, consensus.L2(1e-4)
KINDS = {"batches": (1, 20), "all samples": (10, 25), "nothing to tune": (10, 50)}  # by what rounds are divided, and their rows
LEVEL = "to test_error_worst 0.1"  # that is worth reaching
ACROSS = {"epochs": 0.5, "exchanges": None, "bytes": None, "seconds": 0.05}  # and where figures begin, after the start


def case(seed, shards, data, agents, every):
    whole = cases.case(data, agents, seed, hidden=HIDDEN, regularizer=DECAY, scheme=shards)
    network = topologies.Static(cases.graph(agents, seed), weights=topologies.lazy(topologies.metropolis))  # as D2 asks
    return whole.problem, network, {"test": whole.test, "record_every": every, "metrics_on": BATCH}


def solvers(kind, rounds):
    """Steps are constant; those of D-PSGD also fall to zero along a cosine over the rounds."""
    if kind == "nothing to tune":
        return {"AdaptiveNEXT": AdaptiveNEXT()}
    if kind == "all samples":
        return {"tracking, all samples": Grid(GradientTracking, step_size=[0.5, 2.0])}

    def momentum(step, kept):
        return QGDSGDm(step, batch=BATCH, momentum=1 - kept)

    return {
        "D-PSGD": Grid(lambda step: DGD(step, batch=BATCH), step=[0.1, 0.4]),
        "D-PSGD, falling step": Grid(lambda step: DGD(CosineAnnealing(step, rounds), batch=BATCH), step=[0.4, 1.6]),
        "D2": Grid(lambda step: D2(step, batch=BATCH), step=[0.4, 1.6]),
        "QG-DSGDm": Grid(momentum, step=[0.08, 0.32], kept=[0.1]),
        "tracking": Grid(lambda step: GradientTracking(step, batch=BATCH), step=[0.2, 0.8]),
        "GT-HSGD": Grid(lambda step, beta: GTHSGD(step, batch=BATCH, beta=beta), step=[0.2, 0.8], beta=[0.1]),
    }


def study(folder, kind, measure, data, agents, rounds, seeds):
    """Each measure has the settings that suit it; those of epochs and of bytes are the same."""
    part, rows = KINDS[kind]
    rounds = max(1, rounds // part)
    made = functools.partial(case, data=data, agents=agents, every=max(1, rounds // rows))
    usual = {"rounds": rounds, "seeds": seeds, "tuning_seeds": 1, "folder": folder / kind}
    return Study(made, over={"shards": list(SHARDS)}, solvers=solvers(kind, rounds), measure=measure, **usual)


def figure(found, across):
    """The worst agent's test error of all solvers, a panel for each way to share the data: medians, bands between quartiles."""
    canvas, axes = panels(len(SHARDS), columns=2, size=(3.4, 2.9), share=True)
    for ax, (shards, title) in zip(axes, SHARDS.items(), strict=True):
        draw(ax, {name: of for (place, name), of in found.items() if place == shards}, "test_error_worst", across, log_x=True)
        ax.set_title(title)
        ax.set_xlim(left=ACROSS[across])
        ax.label_outer()
        plain(ax.yaxis)
    legend(canvas, axes[0], columns=4)
    return canvas


def main(arguments=None):
    quick = {"agents": 6, "rounds": 30, "seeds": 1}
    given = options(__doc__, arguments, quick, agents=10, rounds=500, seeds=3)
    folder, data = given.output / "stochastic", "digits" if given.quick else "mnist"
    for measure in (worst_error, f"bytes {LEVEL}", f"epochs {LEVEL}"):
        each = [study(folder, kind, measure, data, given.agents, given.rounds, given.seeds) for kind in KINDS]
        found = [shown(one, given.workers) for one in each]
    ends = {key: quartiles(runs) for one in found for key, runs in histories(one).items()}
    for across in ACROSS:
        figure(ends, across).savefig(folder / f"{across}.png", dpi=150)


if __name__ == "__main__":
    main()
