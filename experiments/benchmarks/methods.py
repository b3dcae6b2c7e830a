"""A round of every exact method against the plain NumPy statement of its update: to reach, at most 1.3 times its time."""

import functools
import itertools
import time

import numpy as np

import consensus
import topologies
from consensus import solvers
from experiments.benchmarks.core import ours, shards
from experiments.shared.timing import options
from tests.reference import multipliers, statements
from tests.reference.exact_methods import METHODS
from tests.reference.least_squares import RIDGE, Costs

SMALL, LARGE = (10, 50, 20), (20, 1000, 100)  # agents, samples, features
CHECKED = 5  # rounds in which the iterates are compared
# Methods with linear systems again, against statements that keep inverses.
KEPT = {
    solver: functools.partial(statement, systems=Costs.inverted)
    for solver, statement in (
        (solvers.DADMM(), multipliers.dadmm),
        (solvers.NetworkGIANT(0.1), statements.network_giant),
        (solvers.NewtonTracking(), multipliers.newton_tracking),
    )
}


def plain(costs, matrix, solver, statement, rounds):
    iterates = statement(matrix, costs, np.zeros((matrix.shape[0], costs.x.shape[2])), solver)
    w = next(iterates)
    since = time.perf_counter()
    with np.errstate(invalid="ignore"):  # differences at the optimum over such
        for w in itertools.islice(iterates, rounds):  # noqa: B007
            pass
    return w, (time.perf_counter() - since) / rounds


def compare(shape, repeats, seconds):
    agents, samples, features = shape
    data, network = shards(*shape), topologies.Static(topologies.random_regular(agents, 4, seed=0))
    problem = consensus.Problem(consensus.Linear(features), consensus.SquaredLoss(), data, consensus.L2(RIDGE))
    costs, matrix = Costs(data.features, data.targets, problem.weights), network.weights(0).toarray()
    print(f"\n{agents} agents, {samples} samples of {features} features; medians of {repeats} alternating runs")
    print(f"{'method':<28} {'us a round':>11} {'plain NumPy':>12} {'ratio':>6}")
    for solver, statement in (*METHODS.items(), *KEPT.items()):
        ready = solver.prepared(problem, network)
        w, theirs = plain(costs, matrix, ready, statement, CHECKED)
        error = np.abs(ours(problem, network, ready, CHECKED)[0] - w).max()
        assert error < 1e-9 * max(1, np.abs(w).max()), f"{solver}: they differ by {error:.1e}"
        rounds = max(3, int(seconds / theirs))
        times = [
            (ours(problem, network, ready, rounds)[1], plain(costs, matrix, ready, statement, rounds)[1])
            for _ in range(repeats)
        ]
        mine, theirs = np.median(times, axis=0) * 1e6
        name = type(solver).__name__ + (", inverses kept" if statement in KEPT.values() else "")
        print(f"{name:<28} {mine:>11.1f} {theirs:>12.1f} {mine / theirs:>6.2f}", flush=True)


def main():
    about = "about what a run of the plain statement takes"
    given = options(__doc__, repeats=(9, "runs of either"), seconds=(0.05, about))
    for shape in (SMALL, LARGE):
        compare(shape, given.repeats, given.seconds)


if __name__ == "__main__":
    main()
