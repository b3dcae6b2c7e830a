"""From ten agents to ten thousand on sparse random graphs: the time of a round, and the exchanges that agreement takes."""

import numpy as np
from sklearn.datasets import make_friedman1

import consensus
import topologies
from consensus import datasets
from consensus.solvers import DGD, NEXT, AdaptiveNEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from experiments.shared.cases import DECAY
from experiments.shared.curves import draw, legend, panels, plain, points, ticks
from experiments.shared.studies import Folder, options, trained
from experiments.shared.tables import END, Spread, ends, of_first

OWN_DATA = True
SAMPLES, HIDDEN, DEGREE = 10, 10, 4  # training samples of an agent, units, neighbours
TESTS = 200  # test samples: every agent is tested on all of them
SOLVERS = {
    "NEXT, partial linearization": NEXT(PartialLinearization(tau=0.3), 0.3),
    "gradient tracking": GradientTracking(0.2),
    "DGD": DGD(0.2),
    "AdaptiveNEXT": AdaptiveNEXT(),
}


def case(seed, agents, every, exchanges):
    """Friedman's first regression problem, with SAMPLES samples an agent."""
    train = SAMPLES * agents
    X, y = make_friedman1(train + TESTS, noise=1.0, random_state=seed)
    data = datasets.split(X, y, test_size=TESTS / (train + TESTS), seed=seed)
    shards = consensus.partition(data.X, data.y, agents=agents, seed=seed)
    problem = consensus.Problem(consensus.MLP([X.shape[1], HIDDEN, 1], "tanh"), consensus.SquaredLoss(), shards, DECAY)
    network = topologies.random_regular(agents, DEGREE, seed=seed)
    return problem, network, {"test": (data.X_test, data.y_test), "record_every": every, "exchanges": exchanges}


def main(arguments=None):
    quick = {"agents": 40, "rounds": 20}  # runs are timed: there is one at a time
    given = options(__doc__, arguments, quick, workers=1, agents=10_000, seeds=1, rounds=100)
    folder, sizes = Folder(given, "scale"), [10**k for k in range(1, 9) if 10**k < given.agents] + [given.agents]
    found = trained(given, folder, case, {"agents": sizes}, {1: SOLVERS}, rows=50, exchanges=given.rounds)
    folder.figure(figure(found, sizes))
    columns = {
        "parameters": (lambda outcomes: float(np.size(outcomes[0].w)), ".3g"),
        "rounds": (of_first("round"), "d"),
        "ms a round": (milliseconds, ".3g"),
        "us of an agent": (each, ".3g"),
        "objective": ("objective", ".3g"),
    }
    columns |= {name: END[name] for name in ("disagreement", "test error")}
    folder.table(ends(found, {"agents": "d", "solver": ""}, columns))


def milliseconds(outcomes):
    """Of a round, the mean over a run, in each repeat."""
    return Spread.of(1e3 * outcome.history["seconds"][-1] / outcome.history["round"][-1] for outcome in outcomes)


def each(outcomes):
    """Microseconds of an agent in a round."""
    return Spread(*(1e3 * value / len(outcomes[0].w) for value in milliseconds(outcomes)))


def figure(found, sizes):
    canvas, axes = panels(3, columns=3, size=(3.0, 2.8))
    for ax, size in zip(axes, (sizes[0], sizes[-1]), strict=False):
        draw(ax, {solver: found[size, solver] for solver in SOLVERS}, "objective")
        ax.set_title(f"{size:,} agents")
    for index, solver in enumerate(SOLVERS):
        points(axes[2], sizes, [milliseconds(found[size, solver]) for size in sizes], solver, index)
    axes[2].set(xscale="log", yscale="log", xlabel="agents", ylabel="milliseconds a round", title="time in one process")
    ticks(axes[2].xaxis, sizes)
    plain(axes[2].yaxis)
    legend(canvas, axes[0])
    return canvas


if __name__ == "__main__":
    main()
