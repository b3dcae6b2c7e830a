"""Speed of two workers or two MPI ranks over one process, the cost of a round, memory; ``--which``: when workers are faster."""

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
from consensus.engines import MPI, Processes, Stacked
from consensus.solvers import NEXT, GradientTracking, Solver
from consensus.solvers.dgd import DGDState
from consensus.surrogates import PartialLinearization
from experiments.benchmarks import timing
from experiments.benchmarks.core import shards
from experiments.benchmarks.local import line
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


def in_python(loops):
    """A cost that Python computes agent by agent, ``loops`` steps of the interpreter each, 20 agents, 20 parameters."""

    def gradient(w, rows):
        for _ in range(len(rows) * loops):
            pass
        return 2 * w

    problem = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), gradient, 20, 20)
    return problem, topologies.Static(topologies.random_regular(20, 4)), GradientTracking(0.05)


def layered(agents, samples, widths):
    """Gradient tracking on a network of these widths."""
    problem = consensus.Problem(
        consensus.MLP(widths), consensus.SquaredLoss(), shards(agents, samples, widths[0]), consensus.L2(1e-3)
    )
    return problem, topologies.Static(topologies.random_regular(agents, 4)), GradientTracking(0.05)


WHICH = {  # cases, and rounds that are timed
    "100 agents, 20 parameters, a round itself": (lambda: light()[:3], 2000),
    "20 agents x 50 samples, 10-20-1, gradients": (lambda: layered(20, 50, [10, 20, 1]), 500),
    "20 agents x 500 samples, 64-100-1, gradients": (lambda: layered(20, 500, [64, 100, 1]), 50),
    "20 agents x 2,000 samples, 784-64-1, gradients": (lambda: layered(20, 2000, [784, 64, 1]), 5),
    "20 agents x 500 samples, 64-100-1, partial linearization": (lambda: heavy()[:3], 5),
    "20 agents, a cost in Python, 0.1 ms each": (lambda: in_python(5_000), 100),
    "20 agents, a cost in Python, 1 ms each": (lambda: in_python(50_000), 20),
}


def which(part=1.0, repeats=5):
    """For each case a round on each engine, and from how many rounds on two workers are faster than one process."""
    print(f"{'':<58}{'one process':>12}{'two workers':>12}{'start':>9}{'kept':>9}  two workers win from")
    for name, (case, rounds) in WHICH.items():
        problem, network, solver = case()
        rounds = max(1, int(part * rounds))

        def whole(engine, case=(problem, network, solver)):
            """Seconds of a run without rounds."""
            begin = time.perf_counter()
            consensus.solve(*case, rounds=0, engine=engine)
            return time.perf_counter() - begin

        here = median_seconds(lambda: whole(Stacked()), repeats)
        started = median_seconds(lambda: whole(Processes(2)), repeats) - here
        one = seconds_a_round(problem, network, solver, rounds, Stacked(), repeats)
        with Processes(2) as engine:
            kept = median_seconds(lambda: whole(engine), repeats) - here
            two = seconds_a_round(problem, network, solver, rounds, engine, repeats)
        saved = one - two
        wins = f"round {started / saved:,.0f} ({kept / saved:,.0f} if kept)" if saved > 0 else "never"
        print(f"{name:<58}{one * 1e3:>9.3f} ms{two * 1e3:>9.3f} ms{started:>7.2f} s{kept:>7.3f} s  {wins}", flush=True)


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
    """Time both cases on each rank under mpiexec; the first prints."""
    engine = MPI()
    numbers = [seconds_a_round(*case, engine) for case in (heavy(), light())]
    # What the light case's ranks really exchange: the rows that the other needs, each once.
    matrix = topologies.metropolis(topologies.random_regular(100, 4))
    rows = len(np.unique(matrix[:50].indices[matrix[:50].indices >= 50]))
    bare = bare_exchange(engine.communicator, rows * 20)
    if engine.root:
        print(*numbers, bare)


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
    parser.add_argument("--which", action="store_true", help="a round on each engine, and when workers are faster")
    parser.add_argument("--part", type=float, default=1.0, help="how many of the usual rounds --which times")
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ranks:
        return on_ranks()
    if options.which:
        return which(options.part)
    if options.memory:
        return measured_memory(options.memory[0], int(options.memory[1]))
    one = seconds_a_round(*heavy(), Processes(1))
    two = seconds_a_round(*heavy(), Processes(2))
    ranks_heavy, ranks_light, bare = map(float, timing.on_ranks(2, "experiments.benchmarks.engines", "--ranks").split())
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
    memory()
    return None


if __name__ == "__main__":
    main()
