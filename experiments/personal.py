"""Agents of several kinds with few samples each: models of their own, coupled; a shared body with own heads; one model."""

import functools
from dataclasses import dataclass

import networkx as nx
import numpy as np

import consensus
import topologies
from consensus.plotting import COLORS, DASHES, MARKERS
from consensus.solvers import GradientTracking, Personalized, SharedBody
from experiments.shared import cases
from experiments.shared.curves import legend, panels
from experiments.shared.harness import Experiment
from experiments.shared.tables import END, ends, last

OWN_DATA = True  # digits, whose classes agents of different kinds call by different names
KINDS, ACROSS = 3, 0.02  # kinds of agents; the weight of a pair of two kinds, where one of the same kind has 1
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
SIZES, MIDDLE = (15, 30, 60), 30  # training samples of an agent; those in the panel by strength
HIDDEN, DECAY, TESTED = 12, consensus.L2(1e-3), 60  # units; weight decay; test samples of an agent
TICKS = (0.05, 0.1, 0.2, 0.4, 0.8)  # of errors
COUPLED, ALONE, ONE, BODY = "own models, coupled", "own models, alone", "one model", "shared body, own heads"


@dataclass(frozen=True)
class OwnedCase:
    """A problem whose agents have a test set each."""

    problem: consensus.Problem
    test: consensus.Shards

    def identity(self, *arguments):
        return cases.Case(self.problem, (self.test.features, self.test.targets)).identity(*arguments)


def main(arguments=None):
    quick = {"repeats": 1, "rounds": 30, "agents": 6}
    experiment = Experiment("personal", __doc__, arguments, agents=12, repeats=5, rounds=3000, quick=quick)
    agents = experiment.agents
    kinds = np.arange(agents) % KINDS
    similar = np.where(kinds[:, None] == kinds, 1.0, ACROSS)
    network = topologies.Static(nx.complete_graph(agents))
    solvers = {(COUPLED, strength): Personalized(similar, strength) for strength in STRENGTHS}
    solvers |= {(ALONE, 0.0): Personalized(similar, 0.0)}
    solvers |= {(ONE, 0.0): GradientTracking(), (BODY, 0.0): SharedBody(GradientTracking(), own="1")}

    def run(size, *method, seed):
        case = dealt(cases.case("digits", 1, seed, hidden=HIDDEN), kinds, size)
        return case, network, solvers[method], {"records": 30}

    found = experiment.train(("samples", "method", "l"), [(size, *method) for size in SIZES for method in solvers], run)
    experiment.figure(figure(found))
    columns = {"test error": ("test_error", ".3g"), "of the worst agent": ("test_error_worst", ".3g")}
    columns |= {"objective": ("objective", ".3g"), "stationarity": END["stationarity"]}
    columns |= {"MB": (functools.partial(last, column="bytes", unit=1e6), ".3g")}
    shown = {(size, name, strength if name == COUPLED else None): runs for (size, name, strength), runs in found.items()}
    experiment.table(ends(shown, {"samples": "", "method": "", "l": "g"}, columns))


def dealt(case, kinds, size):
    """Samples for each agent, in training and test; agents of kind k call class c what the first ones call c + k."""
    shards, (X_test, y_test) = case.problem.shards, case.test
    X, y = np.concatenate([shards.features[0], X_test]), np.concatenate([shards.targets[0, :, 0], np.ravel(y_test)])
    classes = case.problem.model.outputs
    rows = np.arange(len(kinds) * (SIZES[-1] + TESTED)).reshape(len(kinds), -1)
    parts = [(X[own], (y[own] + kind) % classes) for own, kind in zip(rows, kinds, strict=True)]
    train, test = ([(X[part], y[part]) for X, y in parts] for part in (np.s_[TESTED : TESTED + size], np.s_[:TESTED]))
    problem = consensus.Problem(case.problem.model, case.problem.loss, consensus.Shards.from_list(train), DECAY)
    return OwnedCase(problem, consensus.Shards.from_list(test))


def best_strength(found, size):
    """The strength with the least test error: a choice that flatters, marked as such."""
    return min(STRENGTHS, key=lambda strength: last(found[size, COUPLED, strength], "test_error").middle)


def figure(found):
    canvas, (left, right) = panels(2, columns=2, size=(3.4, 2.7), share=True)
    coupled = [last(found[MIDDLE, COUPLED, strength], "test_error") for strength in STRENGTHS]
    drawn(left, STRENGTHS, coupled, COUPLED, 0)
    drawn(right, SIZES, [last(found[size, COUPLED, best_strength(found, size)], "test_error") for size in SIZES], COUPLED, 0)
    for index, name in enumerate((ALONE, BODY, ONE), 1):
        by_size = {size: last(found[size, name, 0.0], "test_error") for size in SIZES}
        drawn(left, (STRENGTHS[0], STRENGTHS[-1]), [by_size[MIDDLE]] * 2, name, index)
        drawn(right, SIZES, list(by_size.values()), name, index)
    left.set(title=f"{MIDDLE} samples an agent", xlabel="strength l of the coupling", ylabel="error on the agents' own tests")
    right.set(title="best l for each number of samples", xlabel="training samples of an agent")
    for ax in (left, right):
        ax.set(xscale="log", yscale="log")
        ax.set_yticks(TICKS, map(str, TICKS))
    right.set_xticks(SIZES, map(str, SIZES))
    right.minorticks_off()
    legend(canvas, left, columns=4)
    return canvas


def drawn(ax, x, spreads, name, index):
    """A line through medians, in a band from the smallest to the largest of the repeats."""
    middle, low, high = np.array(spreads).T
    style = {"color": COLORS[index], "linestyle": DASHES[index], "marker": MARKERS[index], "markersize": 4}
    ax.plot(x, middle, label=name, **style)
    ax.fill_between(x, low, high, color=COLORS[index], alpha=0.15, linewidth=0)
    ax.grid(True, color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)


if __name__ == "__main__":
    main()
