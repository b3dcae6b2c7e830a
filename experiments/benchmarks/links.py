"""A round over a slow link between two hosts of one core each, with one rank a core and with several that take turns."""

import argparse
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

import numpy as np

import consensus
import topologies
from consensus._arrays.parallel import one_blas_thread
from consensus.costs import Cluster, load
from consensus.engines import MPI, Torch
from consensus.solvers import NEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from experiments.benchmarks.cluster import run
from experiments.benchmarks.core import shards
from experiments.shared import timing
from experiments.shared.two_hosts import HOSTS, two_hosts

LATENCY, BANDWIDTH = 0.02, 1e8  # seconds one way, bytes a second each way
EAGER = {"OMPI_MCA_btl_tcp_eager_limit": str(1 << 24)}  # bytes; a larger message takes three latencies instead of one
EACH = [1, 2, 4]  # ranks of a host
AGENTS = 16
RING = topologies.Static(topologies.ring(AGENTS))


def settings():
    """Runs on a ring of agents, by name: problem, network, solver, rounds."""
    small = consensus.MLP([64, 50, 1]), shards(AGENTS, 2000, 64)
    large = consensus.MLP([400, 250, 1]), shards(AGENTS, 150, 400)
    for name, (model, data), solver, rounds in [
        ("gradient tracking, rows of 26 kB", small, GradientTracking(1e-3, order="cta"), 120),
        ("gradient tracking, rows of 802 kB", large, GradientTracking(1e-3, order="cta"), 60),
        ("partial linearization, rows of 26 kB", small, NEXT(PartialLinearization(1.0), 0.1), 25),
    ]:
        yield name, consensus.Problem(model, consensus.SquaredLoss(), data, consensus.L2(1e-3)), RING, solver, rounds


def on_ranks(engine, repeats):
    """Run all settings on each rank; the first prints the median seconds of a round of every setting."""
    os.sched_setaffinity(0, {list(HOSTS).index(platform.node()) % os.cpu_count()})
    engine = {"mpi": MPI, "torch": Torch}[engine]()
    found = [[run(*each, engine, gather=False)["seconds"][-1] / each[-1] for _, *each in settings()] for _ in range(repeats)]
    if engine.root:
        print(json.dumps(np.median(found, axis=0).tolist()))


def measured(engine, each, repeats):
    """Seconds of a round of every setting, on so many ranks of each host."""
    how = Path(sys.executable).parent / "mpiexec" if engine == "mpi" else "by hand"
    variables = (
        os.environ | timing.ANYWHERE | EAGER | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()}
    )
    with tempfile.TemporaryDirectory() as folder, two_hosts(Path(folder), LATENCY, BANDWIDTH) as hosts:
        script = ["-m", "experiments.benchmarks.links", "--engine", engine, "--repeats", repeats]
        jobs = hosts.start(how, variables, *script, each=each)
        said, errors = zip(*(job.communicate() for job in jobs), strict=True)
    if any(job.returncode for job in jobs):
        raise RuntimeError("".join(errors))
    return json.loads("".join(said))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="of every run, of which the median counts; default: 3")
    parser.add_argument("--engine", choices=["mpi", "torch"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        return on_ranks(options.engine, options.repeats)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    with one_blas_thread:
        alone = [run(*each) for _, *each in settings()]
    os.sched_setaffinity(0, cores)
    found = {engine: {each: measured(engine, each, options.repeats) for each in EACH} for engine in ("mpi", "torch")}
    print(f"Milliseconds of a round, {LATENCY * 1e3:g} ms and {BANDWIDTH / 1e6:g} MB/s between hosts; ranks a host:")
    print(f"{'':<38}{'engine':<8}" + "".join(f"{each:>8}" for each in EACH) + f"{'in turn':>10}{'at once':>10}")
    for number, ((name, problem, network, _, rounds), history) in enumerate(zip(settings(), alone, strict=True)):
        work = load(history, problem, network, machines=len(HOSTS))
        seconds = history["seconds"][-1] / len(HOSTS)  # of computing, on each host
        travel = Cluster(LATENCY, 2 * BANDWIDTH, np.inf, adds=np.inf).seconds(work)[-1]
        for engine, by_ranks in found.items():
            row = [by_ranks[each][number] for each in EACH] + [(travel + seconds) / rounds, max(travel, seconds) / rounds]
            print(f"{name:<38}{engine:<8}" + "".join(f"{1e3 * value:>8.1f}" for value in row[:-2]), end="")
            print("".join(f"{1e3 * value:>10.1f}" for value in row[-2:]), flush=True)
    return None


if __name__ == "__main__":
    main()
