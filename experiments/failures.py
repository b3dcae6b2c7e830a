"""Links that fail: how the solvers bear it when from none to nine tenths of all messages are lost."""

import itertools

import topologies
from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from experiments.shared.cases import graph
from experiments.shared.curves import draw, legend, panels
from experiments.shared.harness import Experiment
from experiments.shared.tables import END, OWN, ends, of_first

LOST = (0.0, 0.3, 0.5, 0.7, 0.9)  # the part of all links that is down in a round
PARTIAL = "NEXT, partial linearization"
SOLVERS = {
    PARTIAL: NEXT(PartialLinearization(tau=0.3), 0.3),
    "gradient tracking": GradientTracking(0.1, order="atc"),
    "DGD": DGD(0.1),
}
MORE = 5  # rounds of the other solvers for one of NEXT


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 2, "rounds": 20}
    experiment = Experiment("failures", __doc__, arguments, datasets=["kin8nm"], repeats=3, quick=quick)
    agents, datasets = experiment.agents, experiment.datasets

    def run(data, solver, lost, seed):
        network = topologies.LinkFailure(topologies.Static(graph(agents, seed)), probability=lost, seed=seed)
        rounds = experiment.rounds * (1 if solver == PARTIAL else MORE)
        return experiment.case(data, agents, seed), network, SOLVERS[solver], {"rounds": rounds}

    found = experiment.train(("dataset", "solver", "lost"), itertools.product(datasets, SOLVERS, LOST), run)
    experiment.figure(figure(found, datasets, "objective"))
    experiment.figure(figure(found, datasets, "disagreement"), "disagreement")
    counts = {"rounds": (of_first("round"), "d"), "messages": ("messages", ".0f"), "objective": ("objective", ".3g")}
    experiment.table(ends(found, {"data set": "", "solver": "", "lost": ".0%"}, counts | OWN | END))


def figure(found, datasets, quantity):
    canvas, axes = panels(len(datasets) * len(SOLVERS), columns=len(SOLVERS), share="row")
    for ax, (data, solver) in zip(axes, itertools.product(datasets, SOLVERS), strict=True):
        draw(ax, {f"{lost:.0%} lost": found[data, solver, lost] for lost in LOST}, quantity, x="round")
        ax.set_title(f"{data}, {solver}" if len(datasets) > 1 else solver)
    legend(canvas, axes[0], columns=len(LOST))
    return canvas


if __name__ == "__main__":
    main()
