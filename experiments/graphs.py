"""D-PSGD over graphs with one or few neighbours a round, agents of one label each: the test error by epochs, bytes, seconds."""

import networkx as nx
import numpy as np

import consensus
import topologies
from consensus.costs import Cluster, load
from consensus.solvers import DGD
from consensus.step_sizes import CosineAnnealing
from experiments.shared import tuning
from experiments.shared.curves import after_start, draw, legend, panels
from experiments.shared.harness import Experiment
from experiments.shared.results import training
from experiments.shared.tables import Spread, Table, last
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
    cases = {(data, seed): experiment.case(data, agents, seed, **scheme) for data in experiment.datasets for seed in seeds}
    schedules = {seed: networks(agents, seed) for seed in seeds}
    steps = Family(
        lambda step: DGD(CosineAnnealing(step, experiment.rounds), batch=BATCH), (Axis("first step", (0.1, 0.4), 2.0),), FALLING
    )
    families = {(data, name, FALLING): steps for data in experiment.datasets for name in schedules[seeds[0]]}

    def run(key, point, seed):
        data, name, _ = key
        settings = {"dataset": data, "network": name, "setting": steps.shown(point), "agents": agents, "seed": seed}
        amount = {"rounds": experiment.rounds, "seed": seed, "records": RECORDS}
        return training(settings, cases[data, seed], schedules[seed][name], steps.make(*point), **amount)

    def first(points):
        return experiment.run({at: run(*at, seeds[0]) for at in points}, "choice of steps")

    found = tuning.tuned(first, families, merits, quick=experiment.quick)
    best = {key[:2]: tuning.chosen(found, key[:2], END, merits) for key in families}
    outcomes = experiment.run({(*at, seed): run(*at, seed) for at in best.values() for seed in seeds}, "repeats")
    repeats = {
        key: [timed(outcomes[*at, seed], cases[key[0], seed], schedules[seed][key[1]]) for seed in seeds]
        for key, at in best.items()
    }
    experiment.figure(figure(repeats, experiment.datasets))
    experiment.table(table(repeats, schedules[seeds[0]], {key: steps.shown(point) for key, (_, point) in best.items()}))
    experiment.table(tuning.grids(found, families, merits, ("data set", "network", "steps")), "grids")


def merits(found, key, outcome):
    """The error of the worst agent."""
    return {END: np.inf if outcome.diverged else float(outcome.history["test_error_worst"][-1])}


def timed(outcome, case, network):
    """The outcome with the seconds that it would take on ``WAN``."""
    history = {column: outcome.history[column] for column in outcome.history}
    return outcome._replace(history=history | {"seconds": WAN.seconds(load(outcome.history, case.problem, network))})


def figure(repeats, datasets):
    canvas, axes = panels(len(COSTS) * len(datasets), len(COSTS), size=(3.0, 2.6), share="row")
    places = [(data, x) for data in datasets for x in COSTS]
    for ax, (data, x) in zip(axes, places, strict=True):
        draw(ax, {name: after_start(found) for (where, name), found in repeats.items() if where == data}, "test_error_worst", x)
        ax.set_title(f"{data}, by {x}")
        if x == "seconds":
            ax.set_xlabel("predicted seconds")
    legend(canvas, axes[0], columns=4)
    return canvas


def table(repeats, schedules, settings):
    columns = {"test error": ".3g", "at the worst agent": ".3g", "disagreement": ".2g", "MB": ".4g", "seconds": ".3g"}
    rows = Table({"data set": "", "network": "", "exact after": "", "step": "", **columns})
    for (data, name), outcomes in repeats.items():
        *measured, sent, seconds = (
            last(outcomes, column) for column in ("test_error", "test_error_worst", "disagreement", "bytes", "seconds")
        )
        period = getattr(schedules[name], "period", None)
        rows.add(
            data,
            name,
            f"{period} rounds" if period else "–",
            settings[data, name],
            *measured,
            Spread(*(value / 1e6 for value in sent)),
            seconds,
        )
    return rows


if __name__ == "__main__":
    main()
