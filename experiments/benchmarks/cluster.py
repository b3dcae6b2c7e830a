"""Predicted against measured seconds of MPI runs on this machine: a cluster fitted to some, asked about the others."""

import argparse
import json

import numpy as np

import consensus
import topologies
from consensus.costs import Cluster, load
from consensus.engines import MPI
from consensus.solvers import GradientTracking
from experiments.benchmarks.core import shards
from experiments.shared import timing

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
    model = consensus.MLP([inputs, units, 1])
    problem = consensus.Problem(model, consensus.SquaredLoss(), shards(agents, samples, inputs), consensus.L2(1e-3))
    return problem, topologies.Static(topologies.ring(agents)), GradientTracking(1e-3), rounds


def run(problem, network, solver, rounds, engine="stacked", **options):
    start = np.random.default_rng(0).standard_normal(problem.parameters) * 0.1
    options |= {"start": start, "record_every": rounds, "engine": engine}
    return consensus.solve(problem, network, solver, rounds=rounds, **options).history


def on_ranks(repeats):
    """Run all settings on each rank under mpiexec; the first prints the least seconds of every setting."""
    engine = MPI()
    settings = [setting(*each) for each in KNOWN + ASKED]
    # Round after round through all of them: whoever else uses the machine for a while slows them down alike.
    found = [[run(*each, engine)["seconds"][-1] for each in settings] for _ in range(repeats)]
    if engine.root:
        print(json.dumps(np.min(found, axis=0).tolist()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="of every run, of which the fastest counts; default: 5")
    parser.add_argument("--ranks", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ranks:
        return on_ranks(options.ranks)
    # A machine is a core: with threads of their own, ranks would take each other's.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    measured = json.loads(timing.on_ranks(RANKS, "experiments.benchmarks.cluster", "--ranks", options.repeats, **threads))
    loads = []
    for each in KNOWN + ASKED:
        problem, network, *how = setting(*each)
        loads.append(load(run(problem, network, *how), problem, network, machines=RANKS))
    cluster = Cluster.fitted(loads[: len(KNOWN)], measured[: len(KNOWN)])
    print(cluster)
    print(f"{'agents, samples, inputs, units, rounds':<42} {'measured':>9} {'predicted':>10}  ratio")
    for number, (each, part, seconds) in enumerate(zip(KNOWN + ASKED, loads, measured, strict=True)):
        predicted = cluster.seconds(part)[-1]
        use = "fitted" if number < len(KNOWN) else "asked, 0.75 .. 1.25"
        print(f"{each!s:<42} {seconds:>8.3f}s {predicted:>9.3f}s  {predicted / seconds:.2f}  {use}")
    return None


if __name__ == "__main__":
    main()
