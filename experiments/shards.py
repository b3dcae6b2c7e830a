"""Like shards against sorted ones: how solvers converge when every agent holds other targets."""

from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization
from experiments.shared.cases import graph
from experiments.shared.curves import draw, legend, panels
from experiments.shared.harness import Experiment
from experiments.shared.results import training
from experiments.shared.tables import OWN, Table, last, own_objectives

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
    cases = {
        (data, scheme, seed): experiment.case(data, experiment.agents, seed, scheme=scheme)
        for data in experiment.datasets
        for scheme in SCHEMES
        for seed in experiment.seeds
    }

    def run(curve, seed):
        data, scheme, solver = curve
        settings = {"dataset": data, "shards": scheme, "solver": solver, "agents": experiment.agents, "seed": seed}
        net = graph(experiment.agents, seed)
        rounds = experiment.rounds * (1 if solver == PARTIAL else MORE)
        return training(settings, cases[data, scheme, seed], net, SOLVERS[solver], rounds=rounds, seed=seed)

    found = experiment.repeat(
        run, [(data, scheme, solver) for data in experiment.datasets for scheme in SCHEMES for solver in SOLVERS]
    )
    experiment.figure(figure(found, experiment.datasets, "objective"))
    experiment.figure(figure(found, experiment.datasets, "disagreement"), "disagreement")
    problems = {key: [cases[*key, seed].problem for seed in experiment.seeds] for key in dict.fromkeys(k[:2] for k in cases)}
    experiment.table(table(found, problems))


def figure(found, datasets, quantity):
    canvas, axes = panels(len(datasets) * len(SCHEMES), columns=len(SCHEMES), share="row")
    for ax, (data, scheme) in zip(axes, [(data, scheme) for data in datasets for scheme in SCHEMES], strict=True):
        draw(ax, {solver: found[data, scheme, solver] for solver in SOLVERS}, quantity)
        ax.set_title(f"{data}, {scheme} shards")
    legend(canvas, axes[0])
    return canvas


def table(found, problems):
    columns = {"objective": ".3g", **OWN, "stationarity": ".1e", "disagreement": ".1e", "test error": ".3g"}
    rows = Table({"data set": "", "shards": "", "solver": "", "exchanges": "d", **columns})
    for (data, scheme, solver), outcomes in found.items():
        objective, *rest = (last(outcomes, name) for name in ("objective", "stationarity", "disagreement", "test_error"))
        own = own_objectives(outcomes, problems[data, scheme])
        rows.add(data, scheme, solver, int(outcomes[0].history["exchanges"][-1]), objective, *own, *rest)
    return rows


if __name__ == "__main__":
    main()
