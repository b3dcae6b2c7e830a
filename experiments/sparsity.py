"""Training with l1: the part of the parameters that becomes zero against the error on test data."""

import functools
import itertools

import numpy as np

import consensus
from consensus.solvers import NEXT
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared import cases, centralised
from experiments.shared.curves import legend, panels, points
from experiments.shared.studies import Folder, options, trained
from experiments.shared.tables import END, Spread, ends, last

WEIGHTS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)  # of the l1 norm
ZERO = 1e-4  # what is smaller counts as zero: iterates get there geometrically, and never quite
PARTIAL, FULL, CENTRAL = "NEXT, partial linearization", "NEXT, full linearization", "proximal gradient, centralised"
MORE = 10  # rounds of the others for one of NEXT with partial linearization
SOLVERS = {
    1: {PARTIAL: NEXT(PartialLinearization(tau=0.3), Diminishing(0.6, 0.01))},
    MORE: {FULL: NEXT(FullLinearization(tau=1.0), Diminishing(0.2, 0.002))},
}


def case(seed, data, weight, agents, every):
    whole = cases.case(data, agents, seed, regularizer=consensus.L1(weight))
    return whole.problem, cases.graph(agents, seed), {"test": whole.test, "record_every": every}


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "seeds": 2, "rounds": 20}
    given = options(__doc__, arguments, quick, dataset=["boston", "kin8nm"], agents=10, seeds=3, rounds=200)
    folder = Folder(given, "sparsity")
    runs = trained(given, folder, case, {"data": given.dataset, "weight": WEIGHTS}, SOLVERS, agents=given.agents)
    found = {(data, solver, weight): done for (data, weight, solver), done in runs.items()}
    descent = folder.kept(centralised.gradient_descent)
    for data, weight, seed in itertools.product(given.dataset, WEIGHTS, range(given.seeds)):
        made = functools.partial(case, seed, data, weight, given.agents, 1)
        found.setdefault((data, CENTRAL, weight), []).append(descent(made, MORE * given.rounds, seed))
    found = {key: found[key] for key in itertools.product(given.dataset, (PARTIAL, FULL, CENTRAL), WEIGHTS)}
    folder.figure(figure(found, given.dataset))
    columns = {"zeros": (zeros, ".0%"), "objective": ("objective", ".3g"), **END}
    del columns["disagreement"]
    folder.table(ends(found, {"data set": "", "solver": "", "l1 weight": "g"}, columns))


def zeros(outcomes):
    """The part of the parameters that is zero at the agents' mean, over repeats."""
    return Spread.of(np.mean(np.abs(outcome.w.mean(axis=0)) < ZERO) for outcome in outcomes)


def figure(found, datasets):
    canvas, axes = panels(len(datasets), columns=2, size=(3.4, 2.8))
    for ax, data in zip(axes, datasets, strict=True):
        for index, solver in enumerate((PARTIAL, FULL, CENTRAL)):
            runs = [found[data, solver, weight] for weight in WEIGHTS]
            points(
                ax, [zeros(outcomes) for outcomes in runs], [last(outcomes, "test_error") for outcomes in runs], solver, index
            )
        ax.set(title=data, xlabel="part of the parameters that is zero", ylabel="test error of the mean")
    legend(canvas, axes[0])
    return canvas


if __name__ == "__main__":
    main()
