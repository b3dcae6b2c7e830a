"""From ten agents to ten thousand on sparse random graphs: the time of a round, and the exchanges that agreement takes."""

import numpy as np
from matplotlib.ticker import NullLocator
from sklearn.datasets import make_friedman1

import consensus
import topologies
from consensus import datasets
from consensus.solvers import DGD, NEXT, AdaptiveNEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from experiments.shared.cases import DECAY, Case
from experiments.shared.curves import draw, legend, panels, plain, points
from experiments.shared.harness import Experiment
from experiments.shared.results import training
from experiments.shared.tables import Spread, Table, last

OWN_DATA = True
SAMPLES, HIDDEN, DEGREE = 10, 10, 4  # training samples of an agent, units, neighbours
TESTS = 200  # test samples: every agent is tested on all of them
SOLVERS = {
    "NEXT, partial linearization": NEXT(PartialLinearization(tau=0.3), 0.3),
    "gradient tracking": GradientTracking(0.2),
    "DGD": DGD(0.2),
    "AdaptiveNEXT": AdaptiveNEXT(),
}


def main(arguments=None):
    quick = {"agents": 40, "repeats": 1, "rounds": 20}
    experiment = Experiment("scale", __doc__, arguments, agents=10_000, repeats=1, rounds=100, quick=quick)
    sizes = [10**k for k in range(1, 9) if 10**k < experiment.agents] + [experiment.agents]
    curves = [(size, solver) for size in sizes for solver in SOLVERS]

    def run(curve, seed):
        agents, solver = curve
        settings = {"agents": agents, "solver": solver, "seed": seed}
        net, most = topologies.random_regular(agents, DEGREE, seed=seed), experiment.rounds
        amount = {"rounds": most, "exchanges": most, "records": 50}
        return training(settings, friedman(agents, seed), net, SOLVERS[solver], **amount, seed=seed)

    found = experiment.repeat(run, curves)
    experiment.figure(figure(found, sizes))
    experiment.table(table(found))


def friedman(agents, seed):
    """Friedman's first regression problem, with SAMPLES samples an agent."""
    train = SAMPLES * agents
    X, y = make_friedman1(train + TESTS, noise=1.0, random_state=seed)
    data = datasets.split(X, y, test_size=TESTS / (train + TESTS), seed=seed)
    shards = consensus.partition(data.X, data.y, agents=agents, seed=seed)
    model = consensus.MLP([X.shape[1], HIDDEN, 1], "tanh")
    return Case(consensus.Problem(model, consensus.SquaredLoss(), shards, DECAY), (data.X_test, data.y_test))


def milliseconds(outcomes):
    """Of a round, the mean over a run, in each repeat."""
    return Spread.of(1e3 * outcome.history["seconds"][-1] / outcome.history["round"][-1] for outcome in outcomes)


def figure(found, sizes):
    canvas, axes = panels(3, columns=3, size=(3.0, 2.8))
    for ax, size in zip(axes, (sizes[0], sizes[-1]), strict=False):
        draw(ax, {solver: found[size, solver] for solver in SOLVERS}, "objective")
        ax.set_title(f"{size:,} agents")
    for index, solver in enumerate(SOLVERS):
        points(axes[2], [(size,) * 3 for size in sizes], [milliseconds(found[size, solver]) for size in sizes], solver, index)
    axes[2].set(xscale="log", yscale="log", xlabel="agents", ylabel="milliseconds a round", title="time in one process")
    axes[2].set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes[2].xaxis.set_minor_locator(NullLocator())
    plain(axes[2].yaxis)
    legend(canvas, axes[0])
    return canvas


def table(found):
    columns = {"parameters": ".3g", "rounds": "d", "ms a round": ".3g", "us of an agent": ".3g"}
    ends = {"objective": ".3g", "disagreement": ".1e", "test error": ".3g"}
    rows = Table({"agents": "d", "solver": "", **columns, **ends})
    for (agents, solver), outcomes in found.items():
        time = milliseconds(outcomes)
        each = Spread(*(1e3 * value / agents for value in time))
        parameters = float(np.size(outcomes[0].w))
        measured = [last(outcomes, name) for name in ("objective", "disagreement", "test_error")]
        rows.add(agents, solver, parameters, int(outcomes[0].history["round"][-1]), time, each, *measured)
    return rows


if __name__ == "__main__":
    main()
