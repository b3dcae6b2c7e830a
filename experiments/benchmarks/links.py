"""A round over a slow link between two hosts of one core each, with one rank a core and with several that take turns."""

import json
import os
import platform
import sys
import tempfile
from pathlib import Path

import numpy as np

import topologies
from consensus._arrays.parallel import one_blas_thread
from consensus.costs import Cluster, load
from consensus.engines import MPI, Torch
from consensus.solvers import NEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from experiments.benchmarks.cluster import run
from experiments.benchmarks.core import layered
from experiments.shared.timing import ANYWHERE, ONE_THREAD, Rows, elsewhere, in_turn, options
from experiments.shared.two_hosts import HOSTS, two_hosts

LATENCY, BANDWIDTH = 0.02, 1e8  # seconds one way, bytes a second each way
EAGER = {"OMPI_MCA_btl_tcp_eager_limit": str(1 << 24)}  # bytes; a larger message takes three latencies instead of one
EACH = [1, 2, 4]  # ranks of a host
AGENTS = 16
RING = topologies.Static(topologies.ring(AGENTS))


def settings():
    """Runs on a ring of agents, by name: problem, network, solver, rounds."""
    small, large = layered(AGENTS, 2000, 64, 50, 1), layered(AGENTS, 150, 400, 250, 1)
    tracking, partial = GradientTracking(1e-3, order="cta"), NEXT(PartialLinearization(1.0), 0.1)
    return {
        "gradient tracking, rows of 26 kB": (small, RING, tracking, 120),
        "gradient tracking, rows of 802 kB": (large, RING, tracking, 60),
        "partial linearization, rows of 26 kB": (small, RING, partial, 25),
    }


def medians(engine, repeats):
    """The median seconds of a round of every setting, on the first rank."""
    os.sched_setaffinity(0, {list(HOSTS).index(platform.node()) % os.cpu_count()})
    engine = {"mpi": MPI, "torch": Torch}[engine]()
    runs = [lambda each=each: run(*each, engine, gather=False)["seconds"][-1] / each[-1] for each in settings().values()]
    found = in_turn(runs, repeats)
    return np.median(found, axis=0).tolist() if engine.root else None


def measured(engine, each, repeats):
    """Seconds of a round of every setting, on so many ranks of each host."""
    how = Path(sys.executable).parent / "mpiexec" if engine == "mpi" else "by hand"
    variables = os.environ | ANYWHERE | EAGER | ONE_THREAD | {"PYTHONPATH": os.getcwd()}
    with tempfile.TemporaryDirectory() as folder, two_hosts(Path(folder), LATENCY, BANDWIDTH) as hosts:
        jobs = hosts.start(how, variables, *elsewhere(medians, engine, repeats)[1:], each=each)
        said, errors = zip(*(job.communicate() for job in jobs), strict=True)
    if any(job.returncode for job in jobs):
        raise RuntimeError("".join(errors))
    return json.loads("".join(said))


def main():
    repeats = options(__doc__, repeats=(3, "of every run, of which the median counts")).repeats
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    with one_blas_thread:
        alone = [run(*each) for each in settings().values()]
    os.sched_setaffinity(0, cores)
    found = {engine: [measured(engine, each, repeats) for each in EACH] for engine in ("mpi", "torch")}
    print(f"Milliseconds of a round, {LATENCY * 1e3:g} ms and {BANDWIDTH / 1e6:g} MB/s between hosts; ranks a host:")
    rows = Rows("", 45, {str(each): ".1f" for each in EACH} | {"in turn": ".1f", "at once": ".1f"})
    for number, ((name, (problem, network, _, rounds)), history) in enumerate(zip(settings().items(), alone, strict=True)):
        work = load(history, problem, network, machines=len(HOSTS))
        seconds = history["seconds"][-1] / len(HOSTS)  # of computing, on each host
        travel = Cluster(LATENCY, 2 * BANDWIDTH, np.inf, adds=np.inf).seconds(work)[-1]
        for engine, by_ranks in found.items():
            row = [*(each[number] for each in by_ranks), (travel + seconds) / rounds, max(travel, seconds) / rounds]
            rows.add(f"{name:<38}{engine}", *(1e3 * value for value in row))


if __name__ == "__main__":
    main()
