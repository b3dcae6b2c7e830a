"""A round in one process, with two workers and on two MPI ranks, and from how many rounds on workers are faster."""

from functools import partial

import numpy as np

import consensus
import topologies
from consensus.engines import MPI, Processes, Stacked
from consensus.solvers import NEXT, GradientTracking, Solver
from consensus.solvers.dgd import DGDState
from consensus.surrogates import PartialLinearization
from experiments.benchmarks.core import layered
from experiments.shared.timing import Rows, a_round, median_seconds, on_ranks, options

TRACKING, PARTIAL = GradientTracking(0.05), NEXT(PartialLinearization(1.0), 0.1)
REPEATS = 5


class Mixing(Solver):
    """Nothing but one exchange a round."""

    def init(self, problem, w):
        return DGDState(0, w)

    def step(self, problem, network, state):
        return DGDState(state.round + 1, *network.mix(state.round, state.w))


def functions(agents, loops):
    """A cost that Python computes agent by agent, ``loops`` steps of the interpreter each, 20 parameters."""

    def gradient(w, rows):
        for _ in range(len(rows) * loops):
            pass
        return 2 * w

    return consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), gradient, agents, 20)


CASES = {  # problems, solvers, and rounds that are timed
    "100 agents, 20 parameters, a round itself": (partial(functions, 100, 0), Mixing(), 2000),
    "20 agents x 50 samples, 10-20-1, gradients": (partial(layered, 20, 50, 10, 20, 1), TRACKING, 500),
    "20 agents x 500 samples, 64-100-1, gradients": (partial(layered, 20, 500, 64, 100, 1), TRACKING, 50),
    "20 agents x 2,000 samples, 784-64-1, gradients": (partial(layered, 20, 2000, 784, 64, 1), TRACKING, 5),
    "20 agents x 500 samples, 64-100-1, partial linearization": (partial(layered, 20, 500, 64, 100, 1), PARTIAL, 5),
    "20 agents, a cost in Python, 0.1 ms each": (partial(functions, 20, 5_000), TRACKING, 100),
    "20 agents, a cost in Python, 1 ms each": (partial(functions, 20, 50_000), TRACKING, 20),
}


def run(problem, solver, rounds, engine):
    """The history of a run, of which start and end are recorded."""
    network = topologies.Static(topologies.random_regular(problem.agents, 4))
    start = np.random.default_rng(0).standard_normal((problem.agents, problem.parameters)) * 0.1
    options = {"rounds": rounds, "record_every": rounds or 1, "start": start, "engine": engine}
    return consensus.solve(problem, network, solver, **options).history


def seconds_a_round(*case):
    """Median over runs, start and observation left out."""
    return float(np.median([a_round(run(*case)) for _ in range(REPEATS)]))


def by_ranks():
    """The seconds of a round of all cases, on the first rank."""
    engine = MPI()
    found = [seconds_a_round(make(), *how, engine) for make, *how in CASES.values()]
    return found if engine.root else None


def main():
    options(__doc__)
    columns = dict.fromkeys(("one process", "two workers"), ".3f") | {"start, s": ".2f", "kept, s": ".3f", "two ranks": ".3f"}
    ranks = on_ranks(2, by_ranks)
    rows = Rows("milliseconds of a round", 57, columns | {"two workers win from": ""})
    for (name, (make, solver, rounds)), of_ranks in zip(CASES.items(), ranks, strict=True):
        problem = make()

        def started(engine, problem=problem, solver=solver):
            """The seconds of a run without rounds."""
            return median_seconds(lambda: run(problem, solver, 0, engine), REPEATS)

        here = started(Stacked())
        start = started(Processes(2)) - here
        one = seconds_a_round(problem, solver, rounds, Stacked())
        with Processes(2) as engine:
            kept = started(engine) - here
            two = seconds_a_round(problem, solver, rounds, engine)
        saved = one - two
        wins = f"round {start / saved:,.0f} ({kept / saved:,.0f} if kept)" if saved > 0 else "never"
        rows.add(name, one * 1e3, two * 1e3, start, kept, of_ranks * 1e3, wins)


if __name__ == "__main__":
    main()
