"""A round of every exact method against the plain NumPy statement of its update: to reach, at most 1.3 times its time."""

import functools

import numpy as np

import consensus
import topologies
from consensus import solvers
from experiments.benchmarks.core import in_rounds, ours, shards, stated
from experiments.shared.timing import Rows, options
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


def compare(shape, repeats, seconds):
    agents, samples, features = shape
    data, network = shards(*shape), topologies.Static(topologies.random_regular(agents, 4, seed=0))
    problem = consensus.Problem(consensus.Linear(features), consensus.SquaredLoss(), data, consensus.L2(RIDGE))
    costs, matrix = Costs(data.features, data.targets, problem.weights), network.weights(0).toarray()
    print(f"\n{agents} agents, {samples} samples of {features} features; medians of {repeats} alternating runs")
    rows = Rows("method", 28, {"us a round": ".1f", "plain NumPy": ".1f", "ratio": ".2f"})
    for solver, statement in (*METHODS.items(), *KEPT.items()):
        ready = solver.prepared(problem, network)
        plain = functools.partial(statement, matrix, costs, np.zeros((agents, costs.x.shape[2])), ready)
        with np.errstate(invalid="ignore"):  # differences at the optimum over such
            w, theirs = stated(plain(), CHECKED)
            error = np.abs(ours(problem, network, ready, CHECKED)[0] - w).max()
            assert error < 1e-9 * max(1, np.abs(w).max()), f"{solver}: they differ by {error:.1e}"
            mine, theirs, _ = in_rounds(problem, network, ready, plain, max(3, int(seconds / theirs)), repeats)
        name = type(solver).__name__ + (", inverses kept" if statement in KEPT.values() else "")
        rows.add(name, mine * 1e6, theirs * 1e6, mine / theirs)


def main():
    about = "about what a run of the plain statement takes"
    given = options(__doc__, repeats=(9, "runs of either"), seconds=(0.05, about))
    for shape in (SMALL, LARGE):
        compare(shape, given.repeats, given.seconds)


if __name__ == "__main__":
    main()
