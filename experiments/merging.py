"""One late merge of 32 models that exchange rarely, on MNIST with few classes each: agents' errors, and that of their mean."""

import consensus
import topologies
from consensus.solvers import DGD
from consensus.studies import Study
from experiments.shared.cases import load
from experiments.shared.studies import options, ran

AGENTS, CONCENTRATION, SAMPLES = 32, 0.1, 6000
SHARES = [0.01, 0.05, 0.2, 1.0]  # of the rounds in which an agent averages with another one, chosen at random


def case(seed, share):
    X, y = load("mnist")
    parts = consensus.datasets.split(X[:SAMPLES], y[:SAMPLES], classification=True, seed=seed)
    shards = consensus.partition(parts.X, parts.y, AGENTS, scheme="dirichlet", concentration=CONCENTRATION, seed=seed)
    problem = consensus.Problem(consensus.MLP([784, 32, 10]), consensus.CrossEntropy(), shards, consensus.L2(1e-4))
    network = topologies.LinkFailure(topologies.Matchings(AGENTS, seed=seed), 1 - share, seed=seed)
    return problem, network, {"test": (parts.X_test, parts.y_test), "record_every": 100}


def error_of_the_worst_agent(result):
    """After the last round, before the merge."""
    return float(result.history["test_error_worst"][-1])


def error_of_the_mean(result):
    """After one merge of all models."""
    return float(result.history["test_error"][-1])


def study(folder, measure, rounds=300, seeds=3):
    """The agents start from one point, and exchange in a share of the rounds."""
    solvers = {"D-PSGD": DGD(0.1, batch=16)}
    return Study(case, over={"share": SHARES}, seeds=seeds, solvers=solvers, measure=measure, rounds=rounds, folder=folder)


def main(arguments=None):
    given = options(__doc__, arguments, rounds=300, seeds=3)
    for measure in (error_of_the_worst_agent, error_of_the_mean):
        found = ran(study(given.output / "merging", measure, given.rounds, given.seeds), given.workers)
        print(found.table().to_markdown(), end="\n\n")


if __name__ == "__main__":
    main()
