"""The network: from 5 to 50 agents, from sparse to dense graphs, and graphs that change from round to round."""

import itertools
from typing import NamedTuple

import topologies
from consensus.solvers import NEXT
from consensus.step_sizes import Diminishing
from consensus.surrogates import PartialLinearization
from experiments.shared.cases import graph
from experiments.shared.curves import draw, own_legend, panels
from experiments.shared.harness import Experiment
from experiments.shared.tables import OWN, Spread, ends
from topologies.schedules import is_static

AGENTS = (5, 10, 20, 50)
NEIGHBOURS = (2, 3, 6, 12)  # of an agent on average, from the ring on
UP = (1.0, 0.5, 0.2)  # the part of a graph's edges that is there in a round, drawn anew each time
USUAL = 3  # neighbours, where they are not what changes
SOLVER = NEXT(PartialLinearization(tau=1.0), Diminishing(0.8, 0.005))


class Net(NamedTuple):
    """A kind of network."""

    agents: int
    neighbours: int = USUAL
    up: float = 1.0

    def graph(self, seed):
        if self.neighbours == 2:
            return topologies.ring(self.agents)
        return graph(self.agents, seed, probability=min(1.0, self.neighbours / max(1, self.agents - 1)))

    def schedule(self, seed):
        whole = self.graph(seed)
        return topologies.Static(whole) if self.up == 1 else topologies.RandomEdges(whole, self.up, seed=seed)


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "repeats": 2, "rounds": 20}
    experiment = Experiment("network", __doc__, arguments, datasets=["kin8nm"], agents=20, repeats=3, quick=quick)
    agents = experiment.agents
    families = {
        "more agents": {f"{count} agents": Net(count) for count in AGENTS},
        "denser graphs": {f"{count} neighbours": Net(agents, count) for count in NEIGHBOURS},
        "changing graphs": {f"{up:.0%} of the edges up": Net(agents, up=up) for up in UP},
    }

    def run(data, *net, seed):
        return experiment.case(data, net[0], seed), Net(*net).schedule(seed), SOLVER

    curves = [(data, *net) for data in experiment.datasets for family in families.values() for net in family.values()]
    found = experiment.train(("dataset", *Net._fields), curves, run)
    experiment.figure(figure(found, families, experiment.datasets, "disagreement"))
    experiment.figure(figure(found, families, experiment.datasets, "objective"), "objective")
    columns = {"messages": ("messages", ".0f"), "disagreement": ("disagreement", ".1e"), "objective": ("objective", ".3g")}
    columns = {"spectral gap": (gap, ".2g")} | columns | OWN | {"test error": ("test_error", ".3g")}
    experiment.table(ends(found, {"data set": "", "agents": "d", "neighbours": "d", "edges up": ".0%"}, columns))


def figure(found, families, datasets, quantity):
    canvas, axes = panels(len(datasets) * len(families), len(families), size=(2.6, 2.8), share="row")
    for ax, (data, name) in zip(axes, itertools.product(datasets, families), strict=True):
        draw(ax, {label: found[data, *net] for label, net in families[name].items()}, quantity, x="round")
        own_legend(ax, columns=1)
        ax.set_title(f"{data}, {name}")
    return canvas


def gap(outcomes):
    """The spectral gap of a network that does not change."""
    schedules = [outcome.run.network for outcome in outcomes]
    if not all(map(is_static, schedules)):
        return None
    return Spread.of(topologies.spectral_gap(schedule.weights(0)) for schedule in schedules)


if __name__ == "__main__":
    main()
