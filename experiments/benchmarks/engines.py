"""A round in one process, with two workers and on two MPI ranks, and from how many rounds on workers are faster."""

import argparse
import json

import numpy as np

import consensus
import topologies
from consensus.engines import MPI, Processes, Stacked
from consensus.solvers import NEXT, GradientTracking, Solver
from consensus.solvers.dgd import DGDState
from consensus.surrogates import PartialLinearization
from experiments.benchmarks.core import shards
from experiments.shared import timing
from experiments.shared.timing import median_seconds

TRACKING, PARTIAL = GradientTracking(0.05), NEXT(PartialLinearization(1.0), 0.1)


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


def nothing():
    """Nothing to do but a round itself, 100 agents, 20 parameters."""
    problem = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, 100, 20)
    return problem, topologies.Static(topologies.random_regular(100, 4)), Mixing()


def in_python(loops):
    """A cost that Python computes agent by agent, ``loops`` steps of the interpreter each, 20 agents, 20 parameters."""

    def gradient(w, rows):
        for _ in range(len(rows) * loops):
            pass
        return 2 * w

    problem = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), gradient, 20, 20)
    return problem, topologies.Static(topologies.random_regular(20, 4)), TRACKING


def layered(agents, samples, widths, solver=TRACKING):
    """A network of these widths."""
    problem = consensus.Problem(
        consensus.MLP(widths), consensus.SquaredLoss(), shards(agents, samples, widths[0]), consensus.L2(1e-3)
    )
    return problem, topologies.Static(topologies.random_regular(agents, 4)), solver


CASES = {  # cases, and rounds that are timed
    "100 agents, 20 parameters, a round itself": (nothing, 2000),
    "20 agents x 50 samples, 10-20-1, gradients": (lambda: layered(20, 50, [10, 20, 1]), 500),
    "20 agents x 500 samples, 64-100-1, gradients": (lambda: layered(20, 500, [64, 100, 1]), 50),
    "20 agents x 2,000 samples, 784-64-1, gradients": (lambda: layered(20, 2000, [784, 64, 1]), 5),
    "20 agents x 500 samples, 64-100-1, partial linearization": (lambda: layered(20, 500, [64, 100, 1], PARTIAL), 5),
    "20 agents, a cost in Python, 0.1 ms each": (lambda: in_python(5_000), 100),
    "20 agents, a cost in Python, 1 ms each": (lambda: in_python(50_000), 20),
}


def on_ranks():
    """Print the seconds of a round of all cases, under mpiexec."""
    engine = MPI()
    found = [seconds_a_round(*case(), rounds, engine) for case, rounds in CASES.values()]
    if engine.root:
        print(json.dumps(found))


def main(repeats=5):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().ranks:
        return on_ranks()
    by_ranks = json.loads(timing.on_ranks(2, "experiments.benchmarks.engines", "--ranks"))
    print(f"{'':<58}{'one process':>12}{'two workers':>12}{'start':>9}{'kept':>9}{'two ranks':>12}  two workers win from")
    for (name, (case, rounds)), ranks in zip(CASES.items(), by_ranks, strict=True):
        problem, network, solver = case()

        def whole(engine, case=(problem, network, solver)):
            """A run without rounds."""
            consensus.solve(*case, rounds=0, engine=engine)

        here = median_seconds(lambda: whole(Stacked()), repeats)
        started = median_seconds(lambda: whole(Processes(2)), repeats) - here
        one = seconds_a_round(problem, network, solver, rounds, Stacked(), repeats)
        with Processes(2) as engine:
            kept = median_seconds(lambda: whole(engine), repeats) - here
            two = seconds_a_round(problem, network, solver, rounds, engine, repeats)
        saved = one - two
        wins = f"round {started / saved:,.0f} ({kept / saved:,.0f} if kept)" if saved > 0 else "never"
        workers = f"{one * 1e3:>9.3f} ms{two * 1e3:>9.3f} ms{started:>7.2f} s{kept:>7.3f} s"
        print(f"{name:<58}{workers}{ranks * 1e3:>9.3f} ms  {wins}", flush=True)
    return None


if __name__ == "__main__":
    main()
