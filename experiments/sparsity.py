"""Training with l1: the part of the parameters that becomes zero against the error on test data."""

import itertools

import numpy as np

import consensus
from consensus.solvers import NEXT
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared import centralised
from experiments.shared.cases import graph
from experiments.shared.curves import legend, panels, points
from experiments.shared.harness import Experiment
from experiments.shared.tables import END, Spread, ends, last

WEIGHTS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)  # of the l1 norm
ZERO = 1e-4  # what is smaller counts as zero: iterates get there geometrically, and never quite
PARTIAL, FULL, CENTRAL = "NEXT, partial linearization", "NEXT, full linearization", "proximal gradient, centralised"
SOLVERS = {
    PARTIAL: NEXT(PartialLinearization(tau=0.3), Diminishing(0.6, 0.01)),
    FULL: NEXT(FullLinearization(tau=1.0), Diminishing(0.2, 0.002)),
    CENTRAL: centralised.gradient_descent,
}
MORE = 10  # rounds of the others for one of NEXT with partial linearization


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 2, "rounds": 20}
    data = ["boston", "kin8nm"]
    experiment = Experiment("sparsity", __doc__, arguments, datasets=data, repeats=3, rounds=200, quick=quick)
    agents, rounds = experiment.agents, experiment.rounds

    def run(data, solver, weight, seed):
        case = experiment.case(data, agents, seed, regularizer=consensus.L1(weight))
        network = None if solver == CENTRAL else graph(agents, seed)
        return case, network, SOLVERS[solver], {"rounds": rounds if solver == PARTIAL else MORE * rounds}

    curves = itertools.product(experiment.datasets, SOLVERS, WEIGHTS)
    found = experiment.train(("dataset", "solver", "weight"), curves, run)
    experiment.figure(figure(found, experiment.datasets))
    columns = {"zeros": (zeros, ".0%"), "objective": ("objective", ".3g"), **END}
    del columns["disagreement"]
    experiment.table(ends(found, {"data set": "", "solver": "", "l1 weight": "g"}, columns))


def zeros(outcomes):
    """The part of the parameters that is zero at the agents' mean, over repeats."""
    return Spread.of(np.mean(np.abs(outcome.w.mean(axis=0)) < ZERO) for outcome in outcomes)


def figure(found, datasets):
    canvas, axes = panels(len(datasets), columns=2, size=(3.4, 2.8))
    for ax, data in zip(axes, datasets, strict=True):
        for index, solver in enumerate(SOLVERS):
            runs = [found[data, solver, weight] for weight in WEIGHTS]
            points(
                ax, [zeros(outcomes) for outcomes in runs], [last(outcomes, "test_error") for outcomes in runs], solver, index
            )
        ax.set(title=data, xlabel="part of the parameters that is zero", ylabel="test error of the mean")
    legend(canvas, axes[0])
    return canvas


if __name__ == "__main__":
    main()
