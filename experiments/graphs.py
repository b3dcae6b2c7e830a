"""D-PSGD over graphs with one or few neighbours a round, agents of one label each: the test error by epochs, bytes, seconds."""

import functools

import networkx as nx

import consensus
import topologies
from consensus.costs import Cluster, load
from consensus.solvers import DGD
from consensus.step_sizes import CosineAnnealing
from consensus.studies import Grid, Study
from experiments.shared import cases, studies
from experiments.shared.curves import legend, panels, plain
from experiments.shared.studies import options, shown

DATA, BATCH, HIDDEN, DECAY = "mnist", 32, 64, consensus.L2(1e-4)
RECORDS = 25  # rows of a history
WAN = Cluster(latency=1e-2, bandwidth=1e8, flops=1e10)  # seconds: 10 ms an exchange, 100 MB/s through each agent's link
ERROR, COSTS = "test_error_worst", ("epochs", "bytes", "seconds")


def networks(agents, seed):
    """``{name: schedule}``."""
    doubling = [2**place for place in range(max(1, (agents - 1).bit_length()))]
    return {
        "ring": topologies.Static(topologies.ring(agents)),
        "exponential": topologies.Static(nx.circulant_graph(agents, doubling)),
        "one-peer exponential": topologies.OnePeerExponential(agents),
        "random pairs": topologies.Matchings(agents, seed=seed),
        "EquiDyn": topologies.EquiDyn(agents, seed=seed),
        "base-2": topologies.BaseGraph(agents),
        "base-3": topologies.BaseGraph(agents, peers=2),
    }


def case(seed, network, agents, every):
    whole = cases.case(DATA, agents, seed, hidden=HIDDEN, regularizer=DECAY, scheme="sorted")
    return whole.problem, networks(agents, seed)[network], {"test": whole.test, "record_every": every}


def study(folder, agents, rounds, seeds):
    """The error of the worst agent at the end, with the first step that is best by it on each network."""
    made = functools.partial(case, agents=agents, every=max(1, rounds // RECORDS))
    tuned = Grid(lambda step_size: DGD(CosineAnnealing(step_size, rounds), batch=BATCH), step_size=[0.1, 0.2, 0.4])
    usual = {"rounds": rounds, "seeds": seeds, "tuning_seeds": 1, "folder": folder, "measure": f"{ERROR} after {rounds} round"}
    return Study(made, over={"network": list(networks(agents, 0))}, solvers={"D-PSGD": tuned}, **usual)


def quartiles(found):
    """``{network: {column: (3, rows)}}`` over the seeds of the table, with the seconds that runs would take on ``WAN``."""
    timed = {}
    for (name, _), histories in studies.histories(found).items():
        runs = zip(found.seeds, histories, strict=True)
        timed[name] = [dict(run) | {"seconds": WAN.seconds(load(run, *found.case(seed, name)[:2]))} for seed, run in runs]
    return {name: studies.quartiles(runs) for name, runs in timed.items()}


def main(arguments=None):
    given = options(__doc__, arguments, {"agents": 6, "rounds": 20, "seeds": 1}, agents=25, rounds=500, seeds=3)
    folder = given.output / "graphs"
    found = quartiles(shown(study(folder, given.agents, given.rounds, given.seeds), given.workers))
    forms = dict.fromkeys(("test_error", ERROR, "disagreement", "bytes", "seconds"), "{:.3g}")
    print(studies.ends(found, forms, given.seeds))
    figure(found).savefig(folder / "figure.png", dpi=150)


def figure(found):
    """The error of the worst agent by each cost after the start: medians, and bands between the quartiles."""
    canvas, axes = panels(len(COSTS), size=(3.0, 2.6), share="row")
    for ax, x in zip(axes, COSTS, strict=True):
        studies.draw(ax, found, ERROR, x, log_x=True)
        plain(ax.xaxis)
        plain(ax.yaxis)
        ax.set_title(f"{DATA}, by {x}")
        ax.label_outer()
    axes[-1].set_xlabel("predicted seconds")
    legend(canvas, axes[0], columns=4)
    return canvas


if __name__ == "__main__":
    main()
