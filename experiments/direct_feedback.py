"""Direct feedback alignment: test error and angles with a narrow layer, for one agent and over a network of sorted labels."""

import networkx as nx

import consensus
import topologies
from consensus.models import DirectFeedback
from consensus.observe import alignment
from consensus.solvers import GradientTracking
from experiments.shared.cases import graph
from experiments.shared.curves import after_start, draw, own_legend, panels, plain, points, ticks
from experiments.shared.harness import Experiment
from experiments.shared.tables import Table, last

WIDE, NARROW = 100, (1, 2, 5, 10, 20, 50, 100)  # units of the first and the third hidden layer, and of the second
STEP, DECAY = 0.5, consensus.L2(1e-4)
BACKPROPAGATION, FEEDBACK = "backpropagation", "direct feedback"
LAYERS = {"angle_0": "before the narrow layer", "angle_1": "the narrow layer", "angle_2": "after the narrow layer"}
TOLD = 5  # units of the narrow layer in the paper's text
ALONE, NETWORK = "alone", "network"
SHOWN = (2, 10, 100)  # whose angles are drawn by rounds
RECORDS = 20  # rows: an angle takes two passes over all samples


def main(arguments=None):
    quick = {"repeats": 1, "rounds": 20, "agents": 4}
    experiment = Experiment("direct_feedback", __doc__, arguments, datasets=["digits"], repeats=3, rounds=600, quick=quick)
    datasets, sizes = experiment.datasets, (1, experiment.agents)

    def run(data, narrow, method, agents, seed):
        case = experiment.case(data, agents, seed, hidden=(WIDE, narrow, WIDE), regularizer=DECAY, scheme="sorted")
        network, angles = topologies.Static(nx.empty_graph(1) if agents == 1 else graph(agents, seed)), None
        if method == FEEDBACK:
            p = case.problem
            case = case._replace(problem=consensus.Problem(DirectFeedback(p.model, seed), p.loss, p.shards, p.regularizer))
            angles = alignment(case.problem)
        return case, network, GradientTracking(STEP), {"records": RECORDS, "metrics": angles}

    curves = [(data, b, *kind) for data in datasets for b in NARROW for kind in _kinds(sizes)]
    found = experiment.train(("dataset", "narrow", "method", "agents"), curves, run)
    experiment.figure(figure(found, datasets, sizes))
    experiment.table(table(found, datasets, sizes))


def figure(found, datasets, sizes):
    canvas, axes = panels(3 * len(datasets), columns=3, size=(3.0, 3.0))
    for number, data in enumerate(datasets):
        errors, angles, rounds = axes[3 * number : 3 * number + 3]
        for index, (method, agents) in enumerate(_kinds(sizes)):
            ends = [last(found[data, b, method, agents], "test_error") for b in NARROW]
            points(errors, NARROW, ends, f"{method}, {agents} agent{'s' * (agents > 1)}", index)
        for index, (column, name) in enumerate(LAYERS.items()):
            points(angles, NARROW, [last(found[data, b, FEEDBACK, sizes[1]], column) for b in NARROW], name, index)
        for ax in (errors, angles):
            ax.set(xscale="log", xlabel="units of the narrow layer", title=data)
            ticks(ax.xaxis, NARROW)
        errors.set(yscale="log", ylabel="test error at the end")
        plain(errors.yaxis)
        shown = {f"{b} units": after_start(found[data, b, FEEDBACK, sizes[1]]) for b in SHOWN}
        draw(rounds, shown, "angle_0", "round", log=(False, False))
        rounds.set_title(f"{data}, {LAYERS['angle_0']}")
        angles.set_ylabel("angle at the end, degrees")
        rounds.set_ylabel("angle to the gradient, degrees")
        for ax in (angles, rounds):
            ax.axhline(90, color="0.6", linewidth=2, zorder=0.5)
        for ax in (errors, angles, rounds):
            own_legend(ax, columns=1)
    return canvas


def table(found, datasets, sizes):
    kinds = {f"{method}, {ALONE if agents == 1 else NETWORK}": ".3g" for method, agents in _kinds(sizes)}
    rows = Table({"data set": "", "narrow": "d", **kinds, **{f"angle, {name}": ".1f" for name in LAYERS.values()}})
    for data in datasets:
        for b in NARROW:
            errors = [last(found[data, b, *kind], "test_error") for kind in _kinds(sizes)]
            rows.add(data, b, *errors, *(last(found[data, b, FEEDBACK, sizes[1]], column) for column in LAYERS))
    return rows


def stated(rows):
    """The numbers in the paper's text, from the rows of the table: errors over the network, and angles."""
    found = {"feedback.wide": WIDE, "feedback.narrow": TOLD}
    for units, name in ((WIDE, "wide"), (TOLD, "narrow")):
        row = next(row for row in rows if int(row["narrow"]) == units)
        error, known = (100 * float(row[f"{method}, {NETWORK}"]) for method in (FEEDBACK, BACKPROPAGATION))
        angle = float(row[f"angle, {LAYERS['angle_0']}"])
        found |= {f"feedback.{name}.error": rf"{error:.1f}\,\%", f"feedback.{name}.known": rf"{known:.1f}\,\%"}
        found |= {f"feedback.{name}.angle": f"{angle:.0f}"}
    return found


def _kinds(sizes):
    return [(method, agents) for method in (BACKPROPAGATION, FEEDBACK) for agents in sizes]


if __name__ == "__main__":
    main()
