"""Links that fail: how the solvers bear it when from none to nine tenths of all messages are lost."""

import topologies
from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from experiments.shared.cases import graph
from experiments.shared.curves import draw, legend, panels
from experiments.shared.harness import Experiment
from experiments.shared.results import training
from experiments.shared.tables import OWN, Table, last, own_objectives

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
    cases = {(data, seed): experiment.case(data, agents, seed) for data in datasets for seed in experiment.seeds}

    def run(curve, seed):
        data, solver, lost = curve
        settings = {"dataset": data, "solver": solver, "lost": lost, "agents": agents, "seed": seed}
        whole = topologies.Static(graph(agents, seed))
        network = topologies.LinkFailure(whole, probability=lost, seed=seed)
        rounds = experiment.rounds * (1 if solver == PARTIAL else MORE)
        return training(settings, cases[data, seed], network, SOLVERS[solver], rounds=rounds, seed=seed)

    found = experiment.repeat(run, [(data, solver, lost) for data in datasets for solver in SOLVERS for lost in LOST])
    experiment.figure(figure(found, datasets, "objective"))
    experiment.figure(figure(found, datasets, "disagreement"), "disagreement")
    experiment.table(table(found, {data: [cases[data, seed].problem for seed in experiment.seeds] for data in datasets}))


def figure(found, datasets, quantity):
    canvas, axes = panels(len(datasets) * len(SOLVERS), columns=len(SOLVERS), share="row")
    for ax, (data, solver) in zip(axes, [(data, solver) for data in datasets for solver in SOLVERS], strict=True):
        draw(ax, {f"{lost:.0%} lost": found[data, solver, lost] for lost in LOST}, quantity, x="round")
        ax.set_title(f"{data}, {solver}" if len(datasets) > 1 else solver)
    legend(canvas, axes[0], columns=len(LOST))
    return canvas


def table(found, problems):
    columns = {"objective": ".3g", **OWN, "stationarity": ".1e", "disagreement": ".1e", "test error": ".3g"}
    rows = Table({"data set": "", "solver": "", "lost": ".0%", "rounds": "d", "messages": ".0f", **columns})
    for (data, solver, lost), outcomes in found.items():
        messages, objective, *rest = (
            last(outcomes, name) for name in ("messages", "objective", "stationarity", "disagreement", "test_error")
        )
        own = own_objectives(outcomes, problems[data])
        rows.add(data, solver, lost, int(outcomes[0].history["round"][-1]), messages, objective, *own, *rest)
    return rows


if __name__ == "__main__":
    main()
