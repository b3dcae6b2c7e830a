"""Every solver there is: the objective against exchanges, against bytes sent and against seconds."""

import matplotlib.pyplot as plt
import numpy as np

from consensus.solvers import DGD, NEXT, SONATA, AdaptiveNEXT, Gossip, GradientTracking, PushDIGing, PushPull
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from experiments.cases import graph
from experiments.convergence import ADAPTIVE, LEVELS, MORE, choose, exchanges_to, level_of
from experiments.curves import draw, legend
from experiments.harness import Experiment
from experiments.results import RECORDS, training
from experiments.tables import Spread, Table, last

STEPS, SMALL = (0.1, 0.3, 0.6), (0.05, 0.1, 0.3)


def partial(tau, **settings):
    return PartialLinearization(tau, **settings)


FAMILIES = {  # every solver runs with the best of its settings; the solvers of the first two have the dearer rounds
    "convex approximations": {
        ADAPTIVE: {"": AdaptiveNEXT()},
        "NEXT, partial": {f"tau {tau}, step 0.3": NEXT(partial(tau), 0.3) for tau in (0.03, 0.1, 0.3)},
        "NEXT, partial, own curvature": {
            f"tau {tau}, step 0.3": NEXT(partial(tau, curvature="local"), 0.3) for tau in (0.1, 0.3, 1.0)
        },
        "NEXT, partial, 4 blocks": {f"tau {tau}, step 0.3": NEXT(Blocks(partial(tau), 4), 0.3) for tau in (0.1, 0.3, 1.0)},
    },
    "other ways to mix": {
        "SONATA, partial": {f"tau {tau}, step 0.3": SONATA(partial(tau), 0.3) for tau in (0.03, 0.1, 0.3)},
        "NEXT, partial, 3 exchanges": {f"tau {tau}, step 0.6": Gossip(NEXT(partial(tau), 0.6), 3) for tau in (0.03, 0.1, 0.3)},
        "tracking, 3 exchanges": {f"step {a}": Gossip(GradientTracking(a), 3) for a in STEPS},
        "NEXT, full": {f"tau 1, step {a}": NEXT(FullLinearization(1.0), a) for a in STEPS},
    },
    "gradients": {
        "tracking, adapt then combine": {f"step {a}": GradientTracking(a, order="atc") for a in STEPS},
        "tracking, combine then adapt": {f"step {a}": GradientTracking(a, order="cta") for a in STEPS},
        "DGD": {f"step {a}": DGD(a) for a in STEPS},
        "Push-DIGing": {f"step {a}": PushDIGing(a) for a in SMALL},
        "Push-Pull": {f"step {a}": PushPull(a) for a in SMALL},
    },
}
SOLVERS = {name: settings for family in FAMILIES.values() for name, settings in family.items()}
DEAR = [name for name in SOLVERS if "partial" in name]
ACROSS = ("exchanges", "bytes", "seconds")


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 2, "rounds": 20}
    experiment = Experiment("solvers", __doc__, arguments, datasets=["boston"], repeats=3, rounds=200, quick=quick)
    datasets, seeds, agents = experiment.datasets, experiment.seeds, experiment.agents
    grid = SOLVERS if not experiment.quick else {name: dict(list(settings.items())[:1]) for name, settings in SOLVERS.items()}
    cases = {(data, seed): experiment.case(data, agents, seed) for data in datasets for seed in seeds}

    def run(data, solver, setting, seed):
        settings = {"dataset": data, "solver": solver, "setting": setting, "agents": agents, "seed": seed}
        exchanges = experiment.rounds * (3 if "3" in solver else 1 if solver in DEAR else MORE)
        case, net, method = cases[data, seed], graph(agents, seed), SOLVERS[solver][setting]
        amount = {"rounds": exchanges, "exchanges": exchanges, "records": exchanges if solver == ADAPTIVE else RECORDS}
        return training(settings, case, net, method, **amount, seed=seed)

    wanted = [(data, solver, setting, seeds[0]) for data in datasets for solver in grid for setting in grid[solver]]
    found = experiment.run({key: run(*key) for key in wanted}, "choice of settings")
    best = {(data, solver): choose(found, data, solver, seeds[:1]) for data in datasets for solver in grid}
    wanted = [(*which, setting, seed) for which, setting in best.items() for seed in seeds]
    found |= experiment.run({key: run(*key) for key in wanted}, "repeats")
    repeats = {which: [found[*which, setting, seed] for seed in seeds] for which, setting in best.items()}
    experiment.figure(figure(repeats, datasets))
    experiment.table(table(found, best, repeats, seeds))


def figure(repeats, datasets):
    """A row a family, with a legend of its own."""
    shape = [(data, family) for data in datasets for family in FAMILIES]
    canvas = plt.figure(figsize=(8.3, 3.1 * len(shape)), layout="constrained")
    for (data, family), row in zip(shape, np.atleast_1d(canvas.subfigures(len(shape), 1)), strict=True):
        axes = row.subplots(1, len(ACROSS), sharey=True)
        for ax, across in zip(axes, ACROSS, strict=True):
            draw(ax, {solver: repeats[data, solver] for solver in FAMILIES[family]}, "objective", across)
        axes[len(ACROSS) // 2].set_title(f"{data}: {family}")
        legend(row, axes[0], columns=3)
    return canvas


def table(found, best, repeats, seeds):
    columns = {f"exchanges to {LEVELS[-1]:.0%} of the gap": ".0f", "kB sent till then": ".3g", "seconds till then": ".2g"}
    rows = Table({"data set": "", "solver": "", "setting": "", **columns, "objective": ".3g", "test error": ".3g"})
    for (data, solver), outcomes in repeats.items():
        levels = [level_of(found, data, seed, LEVELS[-1]) for seed in seeds]
        pairs = list(zip(outcomes, levels, strict=True))
        needed = [Spread.of(exchanges_to(*pair, column) for pair in pairs) for column in ("exchanges", "bytes", "seconds")]
        needed[1] = Spread(*(value / 1e3 for value in needed[1]))
        rows.add(data, solver, best[data, solver] or "–", *needed, last(outcomes, "objective"), last(outcomes, "test_error"))
    return rows


if __name__ == "__main__":
    main()
