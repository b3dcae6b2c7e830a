"""Like shards against sorted ones: how solvers converge when every agent holds other targets."""

import itertools

from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared.cases import graph
from experiments.shared.curves import draw, legend, panels
from experiments.shared.harness import Experiment
from experiments.shared.tables import END, OWN, ends, of_first

SCHEMES = ("iid", "dirichlet", "sorted")
PARTIAL = "NEXT, partial linearization"
SOLVERS = {
    PARTIAL: NEXT(PartialLinearization(tau=1.0), Diminishing(0.8, 0.005)),
    "NEXT, full linearization": NEXT(FullLinearization(tau=1.0), 0.2),
    "gradient tracking": GradientTracking(0.2),
    "DGD": DGD(0.1),
}
MORE = 5  # rounds of the other solvers for one of NEXT with partial linearization


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 2, "rounds": 20}
    experiment = Experiment("shards", __doc__, arguments, datasets=["kin8nm", "diabetes"], quick=quick)

    def run(data, scheme, solver, seed):
        rounds = experiment.rounds * (1 if solver == PARTIAL else MORE)
        case = experiment.case(data, experiment.agents, seed, scheme=scheme)
        return case, graph(experiment.agents, seed), SOLVERS[solver], {"rounds": rounds}

    curves = itertools.product(experiment.datasets, SCHEMES, SOLVERS)
    found = experiment.train(("dataset", "shards", "solver"), curves, run)
    experiment.figure(figure(found, experiment.datasets, "objective"))
    experiment.figure(figure(found, experiment.datasets, "disagreement"), "disagreement")
    columns = {"exchanges": (of_first("exchanges"), "d"), "objective": ("objective", ".3g"), **OWN, **END}
    experiment.table(ends(found, {"data set": "", "shards": "", "solver": ""}, columns))


def figure(found, datasets, quantity):
    canvas, axes = panels(len(datasets) * len(SCHEMES), columns=len(SCHEMES), share="row")
    for ax, (data, scheme) in zip(axes, itertools.product(datasets, SCHEMES), strict=True):
        draw(ax, {solver: found[data, scheme, solver] for solver in SOLVERS}, quantity)
        ax.set_title(f"{data}, {scheme} shards")
    legend(canvas, axes[0])
    return canvas


if __name__ == "__main__":
    main()
