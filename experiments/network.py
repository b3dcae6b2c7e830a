"""The network: from 5 to 50 agents, from sparse to dense graphs, and graphs that change from round to round."""

import itertools

import topologies
from consensus.solvers import NEXT
from consensus.step_sizes import Diminishing
from consensus.surrogates import PartialLinearization
from experiments.shared import cases
from experiments.shared.curves import draw, own_legend, panels
from experiments.shared.studies import Folder, options, trained
from experiments.shared.tables import OWN, Spread, ends
from topologies.schedules import is_static

FAMILIES = {  # what changes, and how it is called
    "more agents": ("agents", [5, 10, 20, 50], "{} agents"),
    "denser graphs": ("neighbours", [2, 3, 6, 12], "{} neighbours"),  # of an agent on average, from the ring on
    "changing graphs": ("up", [1.0, 0.5, 0.2], "{:.0%} of the edges up"),  # in a round, drawn anew each time
}
SOLVERS = {"NEXT": NEXT(PartialLinearization(tau=1.0), Diminishing(0.8, 0.005))}


def case(seed, data, every, agents, neighbours=3, up=1.0):
    whole = cases.case(data, agents, seed)
    if neighbours == 2:
        graph = topologies.ring(agents)
    else:
        graph = cases.graph(agents, seed, probability=min(1.0, neighbours / max(1, agents - 1)))
    network = topologies.Static(graph) if up == 1 else topologies.RandomEdges(graph, up, seed=seed)
    return whole.problem, network, {"test": whole.test, "record_every": every}


def main(arguments=None):
    quick = {"dataset": ["diabetes"], "seeds": 2, "rounds": 20}
    given = options(__doc__, arguments, quick, dataset=["kin8nm"], agents=20, seeds=3, rounds=300)
    folder = Folder(given, "network")
    found = {}
    for family, (name, values, text) in FAMILIES.items():
        fixed = {} if name == "agents" else {"agents": given.agents}
        runs = trained(given, folder / name, case, {"data": given.dataset, name: values}, {1: SOLVERS}, **fixed)
        found |= {(data, family, text.format(value)): done for (data, value, _), done in runs.items()}
    folder.figure(figure(found, given.dataset, "disagreement"))
    folder.figure(figure(found, given.dataset, "objective"), "objective")
    columns = {"messages": ("messages", ".0f"), "disagreement": ("disagreement", ".1e"), "objective": ("objective", ".3g")}
    columns = {"spectral gap": (gap, ".2g")} | columns | OWN | {"test error": ("test_error", ".3g")}
    folder.table(ends(found, {"data set": "", "what changes": "", "network": ""}, columns))


def figure(found, datasets, quantity):
    canvas, axes = panels(len(datasets) * len(FAMILIES), len(FAMILIES), size=(2.6, 2.8), share="row")
    for ax, place in zip(axes, itertools.product(datasets, FAMILIES), strict=True):
        draw(ax, {label: done for (*at, label), done in found.items() if tuple(at) == place}, quantity, x="round")
        own_legend(ax, columns=1)
        ax.set_title(", ".join(place))
    return canvas


def gap(outcomes):
    """The spectral gap of a network that does not change."""
    schedules = [outcome.made()[1] for outcome in outcomes]
    if not all(map(is_static, schedules)):
        return None
    return Spread.of(topologies.spectral_gap(schedule.weights(0)) for schedule in schedules)


if __name__ == "__main__":
    main()
