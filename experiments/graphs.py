"""D-PSGD over graphs with one or few neighbours a round, agents of one label each: the test error by epochs, bytes, seconds."""

import functools
import itertools

import networkx as nx

import consensus
import topologies
from consensus.costs import Cluster, load
from consensus.solvers import DGD
from consensus.step_sizes import CosineAnnealing
from experiments.shared.curves import after_start, draw, legend, panels
from experiments.shared.harness import Experiment
from experiments.shared.tables import ends, last, setting
from experiments.shared.tuning import Axis, Family

BATCH, HIDDEN, DECAY = 32, 64, consensus.L2(1e-4)
RECORDS = 25  # rows of a history
WAN = Cluster(latency=1e-2, bandwidth=1e8, flops=1e10)  # seconds: 10 ms an exchange, 100 MB/s through each agent's link
END, FALLING = "error at the end", "cosine"
COSTS = ("epochs", "bytes", "seconds")


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


def main(arguments=None):
    quick = {"dataset": ["digits"], "repeats": 1, "rounds": 20}
    experiment = Experiment("graphs", __doc__, arguments, datasets=["mnist"], agents=25, repeats=3, rounds=500, quick=quick)
    agents, seeds = experiment.agents, experiment.seeds
    scheme = {"hidden": HIDDEN, "regularizer": DECAY, "scheme": "sorted"}
    schedules = {seed: networks(agents, seed) for seed in seeds}
    steps = Family(
        lambda step: DGD(CosineAnnealing(step, experiment.rounds), batch=BATCH), (Axis("first step", (0.1, 0.4), 2.0),), FALLING
    )

    def run(data, name, solver, seed):
        return experiment.case(data, agents, seed, **scheme), schedules[seed][name], solver, {"records": RECORDS}

    families = {key: [steps] for key in itertools.product(experiment.datasets, schedules[seeds[0]])}
    found = experiment.compare(("dataset", "network"), families, run, merits, what="choice of steps")
    repeats = {which[:2]: [timed(outcome) for outcome in outcomes] for which, outcomes in found.repeats.items()}
    experiment.figure(figure(repeats, experiment.datasets))
    columns = {
        "exact after": (exact_after, ""),
        "step": (setting, ""),
        "test error": ("test_error", ".3g"),
        "at the worst agent": ("test_error_worst", ".3g"),
        "disagreement": ("disagreement", ".2g"),
        "MB": (functools.partial(last, column="bytes", unit=1e6), ".4g"),
        "seconds": ("seconds", ".3g"),
    }
    experiment.table(ends(repeats, {"data set": "", "network": ""}, columns))


def exact_after(outcomes):
    """After how many rounds agents hold the average, on schedules that repeat."""
    period = getattr(outcomes[0].run.network, "period", None)
    return f"{period} rounds" if period else "–"


def merits(found, key, outcomes):
    """The error of the worst agent."""
    return {END: last(outcomes, "test_error_worst").middle}


def timed(outcome):
    """The outcome with the seconds that it would take on ``WAN``."""
    seconds = WAN.seconds(load(outcome.history, outcome.run.case.problem, outcome.run.network))
    return outcome._replace(history={**dict(outcome.history), "seconds": seconds})


def figure(repeats, datasets):
    canvas, axes = panels(len(COSTS) * len(datasets), len(COSTS), size=(3.0, 2.6), share="row")
    for ax, (data, x) in zip(axes, itertools.product(datasets, COSTS), strict=True):
        draw(ax, {name: after_start(found) for (where, name), found in repeats.items() if where == data}, "test_error_worst", x)
        ax.set_title(f"{data}, by {x}")
        if x == "seconds":
            ax.set_xlabel("predicted seconds")
    legend(canvas, axes[0], columns=4)
    return canvas


if __name__ == "__main__":
    main()
