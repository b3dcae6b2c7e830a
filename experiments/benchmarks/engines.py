"""Speed of two workers or two MPI ranks over one process, the cost of a round, and memory."""

import argparse
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

import consensus
import topologies
from consensus._parallel import one_blas_thread
from consensus.engines import MPI, Processes, Stacked
from consensus.local import Exact
from consensus.solvers import NEXT, Solver
from consensus.solvers.dgd import DGDState
from consensus.surrogates import Blocks, PartialLinearization
from experiments.benchmarks.core import shards
from experiments.benchmarks.local import TAU, local_problem
from experiments.benchmarks.timing import median_seconds


class Mixing(Solver):
    """Nothing but one exchange a round."""

    def init(self, problem, w):
        return DGDState(0, w)

    def step(self, problem, network, state):
        return DGDState(state.round + 1, *network.mix(state.round, state.w))


def seconds_a_round(problem, network, solver, rounds, engine, repeats=5):
    """Median over runs, start and observation left out."""
    runs = []
    for _ in range(repeats):
        start = np.random.default_rng(0).standard_normal((problem.network_size, problem.parameters)) * 0.1
        history = consensus.solve(
            problem, network, solver, rounds=rounds, record_every=rounds, start=start, engine=engine
        ).history
        runs.append((history["seconds"][-1] - history["seconds"][0]) / rounds)
    return float(np.median(runs))


def heavy():
    """Partial linearization, 20 agents x 500 samples, MLP 64-100-1."""
    data = shards(20, 500, 64)
    problem = consensus.Problem(consensus.MLP([64, 100, 1]), consensus.SquaredLoss(), data, consensus.L2(1e-3))
    return problem, topologies.Static(topologies.random_regular(20, 4)), NEXT(PartialLinearization(1.0), 0.1), 10


def light():
    """Nothing to do but a round itself, 100 agents, 20 parameters."""
    problem = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, 100, 20)
    return problem, topologies.Static(topologies.random_regular(100, 4)), Mixing(), 5000


def bare_exchange(communicator, size=2048, repeats=3000):
    """Median seconds of a bare Isend/Irecv exchange of ``size`` doubles between two ranks."""
    other = 1 - communicator.Get_rank()
    out, into, times = np.zeros(size), np.zeros(size), []
    for _ in range(repeats):
        begin = time.perf_counter()
        requests = [communicator.Irecv(into, other), communicator.Isend(out, other)]
        type(requests[0]).Waitall(requests)
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def on_ranks():
    """What each rank does under mpiexec; the first prints."""
    engine = MPI()
    numbers = [seconds_a_round(*case, engine) for case in (heavy(), light())]
    # What the light case's ranks really exchange: the rows that the other needs, each once.
    matrix = topologies.metropolis(topologies.random_regular(100, 4))
    rows = len(np.unique(matrix[:50].indices[matrix[:50].indices >= 50]))
    bare = bare_exchange(engine.communicator, rows * 20)
    if engine.root:
        print(*numbers, bare)


def under_mpi():
    variables = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    mpiexec = Path(sys.executable).parent / "mpiexec"
    command = [mpiexec, "-n", "2", sys.executable, "-m", "experiments.benchmarks.engines", "--ranks"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables, timeout=600, check=True)
    return [float(number) for number in done.stdout.split()]


def line(what, measured, target):
    print(f"{what:<74} {measured:>10}   {target}")


def blocks_on_cores():
    problem, model, term = local_problem([58, 50, 1], 400, regularizer=consensus.L2(1e-3))
    split = Blocks(PartialLinearization(TAU), 2).at(problem, model.w, model.gradient)

    def solve(which):
        return Exact("primal").solve(which, term, problem.regularizer)

    with one_blas_thread():
        threads, consensus._parallel._Guard.threads = consensus._parallel._Guard.threads, 1
        whole = median_seconds(lambda: solve(model), 3)
        one = median_seconds(lambda: solve(split), 7)
        consensus._parallel._Guard.threads = threads
        two = median_seconds(lambda: solve(split), 7)
    line(f"one agent, P = {problem.parameters:,}, primal: two blocks, two cores over one", f"{one / two:.2f} x", ">= 1.6 x")
    line("  two blocks over one block, on one core: what splitting itself saves", f"{whole / one:.2f} x", "")


def memory():
    """Memory of all processes during a run, less that of the same run on next to no data, over the stacked engine's."""
    data = {}
    for name in ("stacked", "processes"):
        large, small = (
            subprocess.run(
                [sys.executable, "-m", "experiments.benchmarks.engines", "--memory", name, str(samples)],
                capture_output=True,
                text=True,
                timeout=600,
                check=True,
            )
            for samples in (1000, 2)
        )
        data[name] = float(large.stdout) - float(small.stdout)
    ratio = data["processes"] / data["stacked"]
    line(f"memory above the interpreters: two workers {data['processes']:.0f} MB over stacked", f"{ratio:.2f} x", "<= 1.3 x")


def measured_memory(name, samples):
    """Print the largest proportional set size, in MB, of this process and its workers while they run."""
    X = np.random.default_rng(0).standard_normal((20 * samples, 784))
    parts = consensus.partition(X, X[:, 0], agents=20)
    del X
    problem = consensus.Problem(consensus.MLP([784, 64, 1]), consensus.SquaredLoss(), parts, consensus.L2(1e-3))
    seen = [0.0]

    def watch():
        while True:
            seen.append(sum(map(proportional_megabytes, [os.getpid(), *children_of(os.getpid())])))
            time.sleep(0.05)

    threading.Thread(target=watch, daemon=True).start()
    engine = Stacked() if name == "stacked" else Processes(2)
    consensus.solve(problem, topologies.ring(20), NEXT(PartialLinearization(1.0), 0.1), rounds=5, engine=engine)
    print(max(seen))


def proportional_megabytes(process):
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0.0  # gone
    return next(int(row.split()[1]) for row in text.splitlines() if row.startswith("Pss:")) / 1000


def children_of(process):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) == process:
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ranks:
        return on_ranks()
    if options.memory:
        return measured_memory(options.memory[0], int(options.memory[1]))
    one = seconds_a_round(*heavy(), Processes(1))
    two = seconds_a_round(*heavy(), Processes(2))
    ranks_heavy, ranks_light, bare = under_mpi()
    line("20 agents x 500 samples, 64-100-1, partial: two workers over one", f"{one / two:.2f} x", ">= 1.7 x")
    line("  two MPI ranks over one worker", f"{one / ranks_heavy:.2f} x", ">= 1.7 x")
    stacked = seconds_a_round(*heavy(), Stacked())
    line("  the stacked engine (threads) over one worker", f"{one / stacked:.2f} x", "")
    workers = seconds_a_round(*light(), Processes(2))
    line("a round itself, 100 agents, 20 parameters: two workers", f"{workers * 1e6:.0f} us", "<= 100 us")
    line(
        f"  two MPI ranks {ranks_light * 1e6:.0f} us, over a bare exchange of {bare * 1e6:.1f} us",
        f"{ranks_light / bare:.1f} x",
        "<= 5 x",
    )
    blocks_on_cores()
    memory()
    return None


if __name__ == "__main__":
    main()
