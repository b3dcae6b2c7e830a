"""Training with and without a server: the objective by seconds, epochs and bytes, and the fastest method on each cluster."""

import functools
import itertools
from dataclasses import replace
from typing import NamedTuple

import numpy as np

import consensus
from consensus._arrays.parallel import cores
from consensus.centralized import (
    SCAFFOLD,
    DownpourSGD,
    FedAdam,
    FedAvg,
    MapReduceGradientDescent,
    SandblasterLBFGS,
    SynchronousSGD,
    System,
    solve,
)
from consensus.costs import Load, load
from consensus.federated.base import Federated
from consensus.solvers import NEXT, AdaptiveNEXT, GradientTracking
from consensus.studies import Study
from consensus.surrogates import PartialLinearization
from experiments.shared import cases, clusters, passes
from experiments.shared.curves import LEGEND, draw, legend, panels
from experiments.shared.studies import Folder, Outcome, finished, objective, options
from experiments.shared.tables import Spread, Table, last


class Served(NamedTuple):
    """A system with a server.

    Attributes
    ----------
    system : System
        The system.
    times : float
        Rounds of the system for one of ``--rounds``.
    compute : int or None
        Machines that compute; None for one machine per agent.
    serve : int
        Machines that only serve.
    vectors : int
        With a machine per agent: vectors that go through the server for each machine in an exchange, there and back.
    messages : int
        Sequential messages of such an exchange.
    """

    system: System
    times: float
    compute: int | None = None
    serve: int = 1
    vectors: int = 2
    messages: int = 2


HIDDEN, DECAY = 64, consensus.L2(1e-3)
WITHOUT = {
    "NEXT, partial": NEXT(PartialLinearization(tau=0.3), 0.3),
    "AdaptiveNEXT": AdaptiveNEXT(),
    "gradient tracking": GradientTracking(0.3),
}
WITH = {
    "synchronous SGD": Served(SynchronousSGD(100, 0.1, 0.9, workers=2), 3),
    "map-reduce": Served(MapReduceGradientDescent(0.5, workers=2), 1, 2, 0),  # one of the two adds
    "Downpour SGD": Served(DownpourSGD(2, seed=0), 3, 2),
    # A shard and the coordinator serve; its orders go to the shard and the replicas, and scalars come back from both.
    "Sandblaster L-BFGS": Served(SandblasterLBFGS(2), 0.5, 2, 2, messages=6),
    "FedAvg": Served(FedAvg(0.1, 10, batch=30), 0.5),
    "SCAFFOLD": Served(SCAFFOLD(0.1, 10, batch=30), 0.5, vectors=4),
    "FedAdam": Served(FedAdam(0.1, 10, batch=30, server_rate=0.02), 0.5),
}
METHODS = (*WITHOUT, *WITH)
ACROSS = {"epochs": 1, "bytes_busiest": 1e6, "seconds": 1}  # columns of histories, and the units of those of the table
CLOSE = 2  # times the least objective seen: who gets there first wins
NEAR = ("to there: epochs", "MB", "seconds")  # columns of the table: what is needed for that
SIZES = (20, 1000, 1_000_000)  # agents of the clusters
WIDTHS = [256, 1024, 1024, 10]  # of the network whose units are split


def case(seed, data, agents, rounds):
    whole = cases.case(data, agents, seed, hidden=HIDDEN, regularizer=DECAY)
    return whole.problem, cases.neighbours(agents), {"test": whole.test, "record_every": max(1, rounds // 300)}


def main(arguments=None):
    quick = {"rounds": 20}
    given = options(__doc__, arguments, quick, dataset=["digits"], agents=10, seeds=1, rounds=300, workers=1)  # seconds count
    folder = Folder(given, "centralised")
    made = functools.partial(case, agents=given.agents, rounds=given.rounds)
    usual = {"seeds": given.seeds, "rounds": given.rounds, "solvers": WITHOUT, "measure": objective}
    study = Study(made, over={"data": given.dataset}, folder=folder / "without", **usual)
    done, serve = finished(study, given), folder.kept(with_server)
    for data, (name, served) in itertools.product(given.dataset, WITH.items()):
        rounds = max(2, int(served.times * given.rounds))
        done[data, name] = [
            Outcome(*serve(served.system, seed, data, given.agents, rounds), made=functools.partial(made, seed, data))
            for seed in study.seeds
        ]
    found = {curve: done[curve] for curve in itertools.product(given.dataset, METHODS)}
    split = folder.kept(passes.seconds)([64, 64, 64, 10] if given.quick else WIDTHS, cores())
    folder.figure(figure(found, given.dataset, split))
    folder.table(table(found, given.agents))
    folder.table(passes.table(split), "passes")
    data = given.dataset[0]
    there = loads({name: found[data, name][0] for name in METHODS}, target(found, data, 0))
    problem = found[data, METHODS[0]][0].problem
    size = problem.parameters, problem.dtype.itemsize
    maps = {agents: clusters.first([scaled(*pair, agents, *size) for pair in there.items()]) for agents in SIZES}
    folder.figure(clusters.figure(maps, list(there)), "clusters")
    folder.table(clusters.table(maps, list(there)), "clusters")


def with_server(system, seed, data, agents, rounds):
    """History, parameters and end of a run; clients with fewer samples than a batch take all of them."""
    problem, _, given = case(seed, data, agents, rounds)
    if isinstance(system, Federated):
        system = replace(system, batch=min(system.batch, problem.shards.weights.shape[1]))
    start = problem.model.init(np.random.default_rng(seed))
    result = solve(problem, system, rounds=rounds, start=start, record_every=max(1, rounds // 100), test=given["test"])
    return result.history, result.w, result.reason


def target(found, data, repeat):
    """An objective near the least that anybody came to."""
    return CLOSE * min(np.min(found[data, name][repeat].history["objective"]) for name in METHODS)


def first(outcome, level):
    """The number of the first record with an objective of at most ``level``; None if there is none."""
    there = np.flatnonzero(outcome.history["objective"] <= level)
    return int(there[0]) if len(there) else None


def busiest(name, outcome, row):
    """The load until a record of the busiest of machines that have an agent each."""
    problem, network, _ = outcome.made()
    exchanges, size, flops, waits, adds = load(outcome.history, problem, None if name in WITH else network)
    if name == "Downpour SGD":  # where a machine takes as many steps however many there are
        flops = load(outcome.history, problem, machines=WITH[name].compute).flops
    return Load(exchanges[[row]], size[[row]], flops[[row]], waits, adds[[row]])


def loads(outcomes, level):
    """Return the load of the busiest machine until ``level``, of the methods that get there."""
    rows = {name: first(outcome, level) for name, outcome in outcomes.items()}
    return {name: busiest(name, outcomes[name], row) for name, row in rows.items() if row is not None}


def figure(found, datasets, split):
    canvas, axes = panels(3 * len(datasets) + 1, columns=2, size=(3.4, 2.6))
    for row, data in enumerate(datasets):
        for column, x in enumerate(("seconds", "epochs", "bytes_busiest")):
            draw(axes[3 * row + column], {name: found[data, name] for name in METHODS}, "objective", x)
        axes[3 * row + 2].set_xlabel("bytes through the busiest machine")
    legend(canvas, axes[0], columns=3)
    gains = passes.gained(split)
    axes[-1].plot(list(gains), list(gains.values()), color="black", marker="o", label="measured")
    axes[-1].plot(list(gains), list(gains), color="0.6", linestyle="--", label="ideal")
    axes[-1].set(xlabel="workers", ylabel="speed-up of a pass", title="one network, its units split", ylim=(0, None))
    axes[-1].set_xticks(list(gains))
    axes[-1].legend(**LEGEND)
    return canvas


def table(found, agents):
    """Return a table of the ends of runs, and of what they need to come near the least objective."""
    ends = {"objective": ".3g", "test error": ".3g"}
    needed = zip(NEAR, (".3g", ".3g", ".2g"), strict=True)
    rows = Table({"data set": "", "method": "", "compute": "d", "serve": "d", **ends, **dict(needed)})
    for (data, name), runs in found.items():
        machines = (WITH[name].compute or agents, WITH[name].serve) if name in WITH else (agents, 0)
        there = [first(outcome, target(found, data, repeat)) for repeat, outcome in enumerate(runs)]
        spreads = [
            Spread.of(np.inf if row is None else outcome.history[column][row] / scale for row, outcome in zip(there, runs))
            for column, scale in ACROSS.items()
        ]
        rows.add(data, name, *machines, last(runs, "objective"), last(runs, "test_error"), *spreads)
    return rows


def scaled(name, until, agents, parameters, itemsize):
    """The load with more agents, each on a machine of its own with as many data as now: what passes through a server grows.

    Rounds are taken to stay. Without a server all methods gossip with as many neighbours as now, so the load stays, too.
    Map-reduce goes over a binary tree, where messages and bytes grow with the number of its levels.
    """
    if name in WITHOUT:
        return until
    exchanges, served = until.exchanges, WITH[name]
    if name == "map-reduce":
        levels = np.log2(agents)
        numbers = levels * parameters * exchanges
        return Load(2 * levels * exchanges, 2 * numbers * itemsize, until.flops, agents, numbers)
    numbers = served.vectors * agents * parameters * exchanges
    waits = 1 if name == "Downpour SGD" else agents
    return Load(served.messages * exchanges, numbers * itemsize, until.flops, waits, numbers / 2)


if __name__ == "__main__":
    main()
