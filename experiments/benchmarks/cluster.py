"""Predicted against measured seconds of MPI runs on this machine: a cluster fitted to some, asked about the others."""

import numpy as np

import consensus
import topologies
from consensus.costs import Cluster, load
from consensus.engines import MPI
from consensus.solvers import GradientTracking
from experiments.benchmarks.core import layered
from experiments.shared.timing import ONE_THREAD, Rows, in_turn, on_ranks, options

RANKS = 2
# Agents, samples an agent, inputs, units, rounds: small and large messages, little and much to compute.
KNOWN = [
    (4, 20, 10, 10, 200),
    (4, 20, 400, 200, 40),
    (8, 400, 64, 50, 40),
    (16, 50, 100, 100, 30),
    (4, 1500, 64, 100, 20),
    (16, 20, 300, 100, 20),
    (12, 30, 64, 40, 80),
]
ASKED = [(4, 40, 20, 10, 160), (8, 50, 200, 150, 30), (4, 800, 64, 100, 25), (16, 200, 64, 60, 25)]


def setting(agents, samples, inputs, units, rounds):
    problem, network = layered(agents, samples, inputs, units, 1), topologies.Static(topologies.ring(agents))
    return problem, network, GradientTracking(1e-3), rounds


def run(problem, network, solver, rounds, engine="stacked", **options):
    start = np.random.default_rng(0).standard_normal(problem.parameters) * 0.1
    options |= {"start": start, "record_every": rounds, "engine": engine}
    return consensus.solve(problem, network, solver, rounds=rounds, **options).history


def least(repeats):
    """The least seconds of every setting, on the first rank."""
    engine, settings = MPI(), [setting(*each) for each in KNOWN + ASKED]
    # Round after round through all of them: whoever else uses the machine for a while slows them down alike.
    found = in_turn([lambda each=each: run(*each, engine)["seconds"][-1] for each in settings], repeats)
    return found.min(axis=0).tolist() if engine.root else None


def main():
    repeats = options(__doc__, repeats=(5, "of every run, of which the fastest counts")).repeats
    measured = on_ranks(RANKS, least, repeats, **ONE_THREAD)  # a machine is a core: ranks would take each other's
    loads = []
    for each in KNOWN + ASKED:
        problem, network, *how = setting(*each)
        loads.append(load(run(problem, network, *how), problem, network, machines=RANKS))
    cluster = Cluster.fitted(loads[: len(KNOWN)], measured[: len(KNOWN)])
    print(cluster)
    rows = Rows("agents, samples, inputs, units, rounds", 42, {"measured": ".3f", "predicted": ".3f", "ratio": ".2f"})
    for each, part, seconds in zip(KNOWN + ASKED, loads, measured, strict=True):
        predicted = cluster.seconds(part)[-1]
        rows.add(each, seconds, predicted, predicted / seconds, "fitted" if each in KNOWN else "asked, 0.75 .. 1.25")


if __name__ == "__main__":
    main()
